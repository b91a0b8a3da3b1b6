"""A learning rate against the round: it falls by the same factor in every round (ours)."""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench import Schedule, between


@dataclass(frozen=True)
class Template(Schedule):
    """``lr * decay ** round``."""

    decay: Annotated[float, between(0, 1)] = 0.99
    """factor of the rate per round; 1: the rate stays as it is"""

    def __call__(self, lr: float, round: int) -> float:
        """The rate of ``round`` (from 0)."""
        return float(lr * self.decay**round)
