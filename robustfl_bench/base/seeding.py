"""Named random streams: a draw depends only on the seed and on the name of its stream. With the global generators,
which the seed of a run does not fix, so that no part may draw from them."""

import hashlib
import random
from dataclasses import dataclass, field
from typing import Any

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


def _states() -> dict[str, tuple[Any, ...]]:
    """The states of the global generators, by the names under which a module draws from them."""
    import torch

    legacy: Any = np.random.get_state()  # noqa: NPY002
    kind, key, *rest = legacy
    found: dict[str, tuple[Any, ...]] = {"random": random.getstate(), "np.random": (kind, key.tobytes(), *rest)}
    found["torch"] = (torch.get_rng_state().numpy().tobytes(),)
    if torch.cuda.is_initialized():
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            found[f"torch.cuda:{number}"] = (state.numpy().tobytes(),)
    return found


@dataclass(frozen=True)
class GlobalGenerators:
    """The global generators of Python, NumPy and PyTorch, in the states that they have when this object is made."""

    states: dict[str, tuple[Any, ...]] = field(default_factory=_states)

    def drawn(self) -> list[str]:
        """The generators whose states have changed since, because code draws from them or seeds them."""
        return [name for name, state in _states().items() if state != self.states.get(name, state)]

    def restore(self) -> None:
        """Give the generators their states again."""
        import torch

        random.setstate(self.states["random"])
        kind, key, *rest = self.states["np.random"]
        np.random.set_state((kind, np.frombuffer(key, dtype=np.uint32), *rest))  # noqa: NPY002
        for name, (state, *_) in self.states.items():
            if name == "torch":
                torch.set_rng_state(_numbers(state))
            elif name.startswith("torch."):
                torch.cuda.set_rng_state(_numbers(state), name.removeprefix("torch."))


def _numbers(state: bytes) -> Any:
    import torch

    return torch.frombuffer(bytearray(state), dtype=torch.uint8)
