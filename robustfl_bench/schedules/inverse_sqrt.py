"""A learning rate that falls with the square root of the round (RAGA, Zuo et al., arXiv 2403.13374)."""

import math
from dataclasses import dataclass

from robustfl_bench.base.errors import check_fields
from robustfl_bench.schedules.base import Schedule


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """``factor * lr / sqrt(t + offset)``, with t the round counted from 1.

    In RAGA (Zuo et al., arXiv 2403.13374, section V), ``factor`` is the number of local steps K: with K = 3,
    lr = 1 / sqrt(5) and offset 5, the rate is 0.548 in the first round and 0.060 in round 500.
    """

    offset: float = 5
    factor: float = 1

    def __post_init__(self) -> None:
        check_fields(self, offset=(0, math.inf), factor=(1e-12, math.inf))

    def __call__(self, lr: float, round: int) -> float:
        return self.factor * lr / math.sqrt(round + 1 + self.offset)
