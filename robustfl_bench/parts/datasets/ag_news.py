"""AG News: titles and first sentences of news in four classes (Zhang, Zhao and LeCun, NeurIPS 2015)."""

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.datasets import text, word_vectors
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.download import Download
from robustfl_bench.parts.datasets.files import File, Layout, Source, read

TRAIN = "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e"  # SHA-256
TEST = "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699"
# Tokens of all official rows. Made-up names replace the words that occur least often (2.6% of the text), one name for
# each word, so rare words stay rare. Rows keep their order within a class.
REBUILT = "training texts rebuilt from tokens"
REBUILT_TRAIN = "d8f308a9d9d1d5095d771b48f0dd284bbbb6ecf0113c08dab73172fde33b7393"
FILES = (
    File("train.csv", {f"sha256:{TRAIN}": "official", f"sha256:{REBUILT_TRAIN}": REBUILT}, at_most=30_000_000),
    File("test.csv", {f"sha256:{TEST}": "official"}, size=1_857_427),
)
MIRRORS = ("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",)


@dataclass(frozen=True)
class AgNews(Dataset):
    """120,000 training and 7,600 test texts (World, Sports, Business, Sci/Tech) as token ids, (N, length) int32.

    A text is title and description. ``Data.vectors`` (words, ``embedding_dim``) are made once per machine, or read from
    ``embedding_file`` (absolute, or from the data folder).

    BOBA uses this data set and does not state its tokens and vectors; with these its numbers can be reproduced.
    """

    min_frequency: Annotated[int, at_least(1)] = 5
    """words that are rarer in the training texts are replaced by one unknown word"""
    length: Annotated[int, at_least(1)] = 64
    """tokens per text; longer texts are truncated"""
    embedding_file: str | None = None
    """a file of word vectors in GloVe's text format; null: vectors fitted to the training texts"""
    embedding_dim: Annotated[int, at_least(1)] = 100
    """dimension of the vectors; with embedding_file, that of the file"""

    name = "ag_news"
    content = "words"
    num_classes = 4
    source = Source(
        name,
        layouts=tuple(Layout(folder, FILES) for folder in ("ag_news", "ag_news_csv", "ag_news/ag_news_csv", ".")),
        downloads=(Download("train.csv", TRAIN, MIRRORS), Download("test.csv", TEST, MIRRORS)),
        sizes=dict.fromkeys(("official", REBUILT), (120_000, 7_600)),
        licence="research and other non-commercial use",
    )

    def __post_init__(self) -> None:
        if self.embedding_file is not None and not isinstance(self.embedding_file, str):
            raise ConfigError(f"embedding_file must be null or the name of a file, got {self.embedding_file!r}")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.length,)

    def load(self, folder: Path) -> Data:
        import torch

        (train, test), variant = read(self.source, folder)
        (train_texts, train_y), (test_texts, test_y) = parse(train.content), parse(test.content)
        ids = text.vocabulary(train_texts, self.min_frequency)
        train_rows, test_rows = text.encode(train_texts, ids), text.encode(test_texts, ids)
        if self.embedding_file is None:
            vectors = word_vectors.cached_from_texts(
                train_rows, text.FIRST_WORD + len(ids), self.embedding_dim, cache_folder()
            )
        else:
            vectors = word_vectors.read_file(folder / Path(self.embedding_file).expanduser(), ids, self.embedding_dim)
            variant += f", word vectors sha256:{hashlib.sha256(vectors.tobytes()).hexdigest()}"
        return Data(
            torch.from_numpy(text.pad(train_rows, self.length)),
            torch.from_numpy(train_y),
            torch.from_numpy(text.pad(test_rows, self.length)),
            torch.from_numpy(test_y),
            variant=variant,
            vectors=torch.from_numpy(vectors),
        )


def cache_folder() -> Path:
    """The folder of the vectors: in the user's cache, as the data folder may be read-only."""
    from platformdirs import user_cache_path

    return user_cache_path("robustfl_bench") / "word_vectors"


def parse(content: bytes) -> tuple[list[list[str]], np.ndarray]:
    """Tokens of the texts and their class numbers (N,), from 0; a row is class (from 1), title, description."""
    rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    labels = np.array([int(label) - 1 for label, _, _ in rows])
    return [text.tokenize(f"{title} {description}") for _, title, description in rows], labels
