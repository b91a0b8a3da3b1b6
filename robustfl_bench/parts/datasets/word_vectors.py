"""Word vectors, (words, dimensions): made from the texts themselves, or read from a file in GloVe's text format."""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.parts.datasets.text import FIRST_WORD

WINDOW = 5  # words to either side that count as context
CONTEXT_POWER = 0.75  # flattens the contexts' frequencies, so that rare contexts weigh less
SD = 0.4  # of the vectors' entries, about that of GloVe's
RECIPE = 1  # raise it when the vectors made of the same texts change


def from_texts(rows: Sequence[np.ndarray], num_ids: int, dim: int) -> np.ndarray:
    """Vectors (num_ids, dim) float32 of the ids in ``rows``; zero for padding and unknown words.

    Co-occurrences within WINDOW words weigh 1 / distance; their positive pointwise mutual information, with the
    contexts' counts to the power CONTEXT_POWER (Levy, Goldberg and Dagan, TACL 2015), goes through a truncated
    singular value decomposition, and U sqrt(S), scaled to SD, are the vectors. Deterministic.
    """
    from scipy.sparse.linalg import svds

    if dim >= num_ids:
        raise ConfigError(f"embedding_dim must be below the {num_ids} words of the vocabulary, got {dim}")
    start = seeding.generator(0, "word vectors").standard_normal(num_ids)
    u, s, _ = svds(_mutual_information(rows, num_ids), k=dim, v0=start)
    vectors = u * np.sqrt(s)
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(dim)])  # the solver leaves the signs open
    vectors[:FIRST_WORD] = 0
    scaled: np.ndarray = (vectors * (SD / vectors[FIRST_WORD:].std())).astype(np.float32)
    return scaled


def _mutual_information(rows: Sequence[np.ndarray], num_ids: int) -> Any:
    """The positive pointwise mutual information of words (rows) and contexts, a sparse (num_ids, num_ids) array."""
    from scipy.sparse import coo_array, csr_array

    ids, text = np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    counts = csr_array((num_ids, num_ids))
    for distance in range(1, WINDOW + 1):
        left, right = ids[:-distance], ids[distance:]
        pair = (text[:-distance] == text[distance:]) & (left >= FIRST_WORD) & (right >= FIRST_WORD)
        weights = np.full(pair.sum(), 1 / distance)
        counts = counts + coo_array((weights, (left[pair], right[pair])), shape=counts.shape).tocsr()
    counts = (counts + counts.T).tocoo()
    words = np.asarray(counts.sum(axis=1))
    contexts = words**CONTEXT_POWER
    contexts /= contexts.sum()
    row, column = counts.coords
    information = np.log(counts.data / (words[row] * contexts[column]))
    positive = information > 0
    return csr_array((information[positive], (row[positive], column[positive])), shape=counts.shape)


def cached_from_texts(rows: Sequence[np.ndarray], num_ids: int, dim: int, folder: Path) -> np.ndarray:
    """``from_texts``, cached in ``folder`` under a digest of the texts; a damaged cache file is replaced.

    If the folder is not writable, every process makes the vectors anew: some ten seconds for 120,000 texts.
    """
    digest = hashlib.blake2b(f"{RECIPE} {num_ids} {dim}".encode(), digest_size=8)
    for row in rows:
        digest.update(len(row).to_bytes(4, "big") + row.astype("<i4", copy=False).tobytes())
    path = folder / f"{digest.hexdigest()}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:  # a zip file: reading checks the content
            kept: np.ndarray = stored["vectors"]
        if kept.shape == (num_ids, dim) and kept.dtype == np.float32:
            return kept
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
        pass
    vectors = from_texts(rows, num_ids, dim)
    content = io.BytesIO()
    np.savez(content, vectors=vectors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{path.name}.{os.getpid()}"
        temporary.write_bytes(content.getvalue())
        os.replace(temporary, path)
    except OSError:
        pass
    return vectors


def read_file(path: Path, ids: Mapping[str, int], dim: int) -> np.ndarray:
    """Vectors (ids and two, dim) float32 from lines "word number ... number"; words missing from the file get zeros.

    Raises DataError when the file is missing, has other dimensions or no vector for any of the words.
    """
    vectors = np.zeros((FIRST_WORD + len(ids), dim), dtype=np.float32)
    found = 0
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                word, _, values = line.rstrip().partition(" ")
                if word not in ids:
                    continue
                numbers = np.array(values.split(" "), dtype=np.float32)
                if len(numbers) != dim or not np.isfinite(numbers).all():
                    raise DataError(
                        f"{path}: line {number} has {len(numbers)} numbers, expected {dim} finite ones; "
                        "give the file's dimension as dataset.embedding_dim"
                    )
                vectors[ids[word]] = numbers
                found += 1
    except OSError as error:
        raise DataError(f"{path}: word vectors cannot be read ({error.strerror}); see dataset.embedding_file") from None
    except ValueError:
        raise DataError(f"{path}: line {number} is not a word and {dim} numbers, as GloVe's text format has") from None
    if not found:
        raise DataError(f"{path}: has a vector for none of the {len(ids)} words; expected GloVe's format, lower case")
    return vectors
