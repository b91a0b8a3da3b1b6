"""Named random streams: a draw depends on the seed and on the name of its purpose, and on nothing else."""

import hashlib

import numpy as np

Name = str | int


def _digest(seed: int, name: tuple[Name, ...]) -> int:
    text = "\x1f".join([str(seed), *map(str, name)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def generator(seed: int, *name: Name) -> np.random.Generator:
    """Random generator of the stream ``name``, for example ``generator(0, "batches", round, step)``.

    Streams of different names are independent. A name holds what the draw may depend on; it leaves out the
    aggregator and the attack, so that all compared runs face the same shards, initial model and batches.
    """
    return np.random.Generator(np.random.Philox(key=_digest(seed, name)))


def integer(seed: int, *name: Name) -> int:
    """A 63-bit integer of the stream ``name``, to seed a library that takes only integers."""
    return _digest(seed, name) >> 65
