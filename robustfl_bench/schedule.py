"""Learning rate against the round."""

import math
from dataclasses import dataclass

from robustfl_bench.interfaces import check_choice, check_fields


@dataclass(frozen=True)
class Constant:
    """The initial rate in every round."""

    def __call__(self, lr: float, round: int) -> float:
        return lr


@dataclass(frozen=True)
class Step:
    """Constant until round ``start`` (counted from 0), then multiplied by ``factor`` once per ``interval`` rounds.

    BOBA, Table 6. The paper leaves open whether the first decay is at ``start`` (``first_decay=start``, the default)
    or one interval later (``first_decay=late``).
    """

    start: int
    interval: int
    factor: float
    first_decay: str = "start"

    def __post_init__(self) -> None:
        check_fields(self, start=(0, math.inf), interval=(1, math.inf), factor=(0, 1))
        check_choice("first_decay", self.first_decay, ("start", "late"))

    def __call__(self, lr: float, round: int) -> float:
        if round < self.start:
            return lr
        decays = (round - self.start) // self.interval + (1 if self.first_decay == "start" else 0)
        return lr * self.factor**decays


@dataclass(frozen=True)
class InverseSqrt:
    """``factor * lr / sqrt(t + offset)``, with t the round counted from 1.

    RAGA (Zuo et al., arXiv 2403.13374, section V) takes its number of local steps for ``factor``: with K = 3,
    lr = 1 / sqrt(5) and offset 5 the rate is 0.548 in the first round and 0.060 in round 500.
    """

    offset: float = 5
    factor: float = 1

    def __post_init__(self) -> None:
        check_fields(self, offset=(0, math.inf), factor=(1e-12, math.inf))

    def __call__(self, lr: float, round: int) -> float:
        return self.factor * lr / math.sqrt(round + 1 + self.offset)
