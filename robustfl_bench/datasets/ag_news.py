"""AG News: titles and first sentences of news in four classes (Zhang, Zhao and LeCun, NeurIPS 2015)."""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustfl_bench.datasets import text, word_vectors
from robustfl_bench.datasets.download import Download
from robustfl_bench.datasets.files import File, Layout, Source, read
from robustfl_bench.errors import ConfigError, check_fields
from robustfl_bench.interfaces import Data, Dataset

TRAIN_MD5, TEST_MD5 = "b1a00f826fdfbd249f79597b59e1dc12", "d52ea96a97a2d943681189a97654912d"
# Tokens of all official rows, the words that occur least often (2.6% of the text) under made-up names. Each name
# stands for one word, so what is rare stays rare; rows keep their order within a class.
REBUILT = "training texts rebuilt from tokens"
REBUILT_MD5 = "ba9a1268db234320f22008d366f93cd1"
FILES = (
    File("train.csv", {f"md5:{TRAIN_MD5}": "official", f"md5:{REBUILT_MD5}": REBUILT}),
    File("test.csv", {f"md5:{TEST_MD5}": "official"}, size=1_857_427),
)
MIRRORS = ("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",)


@dataclass(frozen=True)
class AgNews(Dataset):
    """120,000 training and 7,600 test texts (World, Sports, Business, Sci/Tech) as token ids, (N, length) int32.

    A text is title and description. Words that the training texts have fewer than ``min_frequency`` times are one
    unknown word; the first ``length`` tokens count. ``Data.vectors`` (words, ``embedding_dim``) come from the training
    texts, made once per machine, or from the user's ``embedding_file`` (absolute, or from the data folder).

    BOBA uses this data set and says nothing of tokens and vectors; with these its numbers can be met.
    """

    min_frequency: int = 5
    length: int = 64
    embedding_file: str | None = None
    embedding_dim: int = 100

    name = "ag_news"
    content = "words"
    num_classes = 4
    source = Source(
        name,
        layouts=tuple(Layout(folder, FILES) for folder in ("ag_news", "ag_news_csv", "ag_news/ag_news_csv", ".")),
        downloads=(Download("train.csv", TRAIN_MD5, MIRRORS), Download("test.csv", TEST_MD5, MIRRORS)),
        num_train=120_000,
        num_test=7_600,
        licence="research and other non-commercial use",
    )

    def __post_init__(self) -> None:
        check_fields(self, min_frequency=(1, math.inf), length=(1, math.inf), embedding_dim=(1, math.inf))
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
        return Data(
            torch.from_numpy(text.pad(train_rows, self.length)),
            torch.from_numpy(train_y),
            torch.from_numpy(text.pad(test_rows, self.length)),
            torch.from_numpy(test_y),
            source=variant,
            vectors=torch.from_numpy(vectors),
        )


def cache_folder() -> Path:
    """Where the vectors are kept: in the user's cache, as the data may lie where only others write."""
    from platformdirs import user_cache_path

    return user_cache_path("robustfl_bench") / "word_vectors"


def parse(content: bytes) -> tuple[list[list[str]], np.ndarray]:
    """Tokens of the texts and their class numbers (N,), from 0; a row is class (from 1), title, description."""
    rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    labels = np.array([int(label) - 1 for label, _, _ in rows])
    return [text.tokenize(f"{title} {description}") for _, title, description in rows], labels
