"""A learning rate that falls with the square root of the round (RAGA, Zuo et al., arXiv 2403.13374)."""

import math
from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.schedules.base import Schedule


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """``factor * lr / sqrt(t + offset)``, with t the round counted from 1.

    In RAGA (Zuo et al., arXiv 2403.13374, section V), ``factor`` is the number of local steps K: with K = 3,
    lr = 1 / sqrt(5) and offset 5, the rate is 0.548 in the first round and 0.060 in round 500.
    """

    offset: Annotated[float, at_least(0)] = 5
    """added to the number of the round, from 1, under the root"""
    factor: Annotated[float, at_least(1e-12)] = 1
    """factor of the rate"""

    def __call__(self, lr: float, round: int) -> float:
        return self.factor * lr / math.sqrt(round + 1 + self.offset)
