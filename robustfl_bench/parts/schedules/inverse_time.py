"""A learning rate that falls with the round (MoNNA, Farhadkhani et al., ICML 2023)."""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.schedules.base import Schedule


@dataclass(frozen=True)
class InverseTime(Schedule):
    """``lr / (1 + t / halving)``, with t the round counted from 0, rounded down to a multiple of ``interval``.

    In the authors' code (``reproduce.py`` of github.com/LPD-EPFL/robust-collaborative-learning) both are 50 rounds on
    MNIST: the rate is lr for 50 rounds, then a half, a third, a quarter of it.
    """

    halving: Annotated[float, at_least(1e-12)] = 50
    """rounds after which the rate is a half"""
    interval: Annotated[int, at_least(1)] = 50
    """rounds between changes of the rate"""

    def __call__(self, lr: float, round: int) -> float:
        return lr / (1 + round // self.interval * self.interval / self.halving)
