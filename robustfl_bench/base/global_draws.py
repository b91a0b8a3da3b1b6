"""The global random generators of this process. The seed of a run does not fix them, so no part may draw from them."""

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np


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
