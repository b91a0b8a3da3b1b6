"""A learning rate that falls with a power of the round (the theory of RAGA, Zuo et al., arXiv 2403.13374, Remark 1)."""

import math
from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.schedules.base import Schedule


@dataclass(frozen=True)
class InversePower(Schedule):
    """``factor * lr / (t + offset)^exponent``, with t the round counted from 1.

    RAGA's theory has the exponent 1/3 + delta, with delta between 0 and 2/3, and promises a convergence of order
    1 / T^(2/3 - delta) on losses that need not be convex. Its experiments have 1/2, as ``inverse_sqrt`` does.
    """

    exponent: Annotated[float, at_least(0)] = 0.5
    """power of the number of the round; 0: a constant rate"""
    offset: Annotated[float, at_least(0)] = 5
    """added to the number of the round, from 1"""
    factor: Annotated[float, at_least(1e-12)] = 1
    """factor of the rate"""

    def __call__(self, lr: float, round: int) -> float:
        return self.factor * lr / math.pow(round + 1 + self.offset, self.exponent)
