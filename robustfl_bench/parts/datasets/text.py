"""From texts to rows of token ids: 0 is padding, 1 any unknown word, then the words by falling frequency."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2
REPLACEMENTS = (
    ("'", " ' "),
    ('"', ""),
    (".", " . "),
    ("<br />", " "),
    (",", " , "),
    ("(", " ( "),
    (")", " ) "),
    ("!", " ! "),
    ("?", " ? "),
    (";", " "),
    (":", " "),
)


def tokenize(text: str) -> list[str]:
    """Basic English tokens: lower-case words and punctuation marks; quotation marks, colons and semicolons vanish."""
    text = text.lower()
    for old, new in REPLACEMENTS:
        text = text.replace(old, new)
    return text.split()


def vocabulary(texts: Iterable[Sequence[str]], min_frequency: int) -> dict[str, int]:
    """Ids, from FIRST_WORD on, of the tokens that occur at least ``min_frequency`` times; frequent ones come first."""
    counts: Counter[str] = Counter()
    for tokens in texts:
        counts.update(tokens)
    words = sorted((-count, word) for word, count in counts.items() if count >= min_frequency)
    return {word: FIRST_WORD + i for i, (_, word) in enumerate(words)}


def encode(texts: Iterable[Sequence[str]], ids: Mapping[str, int]) -> list[np.ndarray]:
    """The texts' ids, one int32 array each, UNKNOWN for words without one."""
    return [np.array([ids.get(word, UNKNOWN) for word in tokens], dtype=np.int32) for tokens in texts]


def pad(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    """(N, length): the first ``length`` ids of each row, and PADDING behind shorter ones."""
    padded = np.full((len(rows), length), PADDING, dtype=np.int32)
    for out, row in zip(padded, rows, strict=True):
        out[: min(length, len(row))] = row[:length]
    return padded
