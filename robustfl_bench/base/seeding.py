"""Named random streams: a draw depends only on the seed and on the name of its stream."""

import hashlib

import numpy as np
from numpy.random.bit_generator import ISeedSequence

Name = str | int


def _digest(seed: int, name: tuple[Name, ...]) -> int:
    text = "\x1f".join([str(seed), *map(str, name)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


class _Key(ISeedSequence):
    """The key of a Philox generator. ``Philox(key=...)`` gives the same stream but takes four times as long, because it
    also asks the operating system for unused entropy."""

    def __init__(self, key: int) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: object = np.uint64) -> np.ndarray:
        return np.frombuffer(self._key.to_bytes(16, "little"), dtype="<u8")


def generator(seed: int, *name: Name) -> np.random.Generator:
    """Random generator of the stream ``name``, for example ``generator(0, "batches", round, step)``.

    Streams with different names are independent. A name contains everything that the draw may depend on. It leaves out
    the aggregator and the attack, so that all compared runs have the same shards, initial model and batches.
    """
    # NumPy documents such seeds, but its type annotations lack them.
    return np.random.Generator(np.random.Philox(_Key(_digest(seed, name))))  # type: ignore[arg-type]


def integer(seed: int, *name: Name) -> int:
    """A 63-bit integer of the stream ``name``, to seed a library that takes only integers."""
    return _digest(seed, name) >> 65
