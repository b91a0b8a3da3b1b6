"""A learning rate that falls in steps (BOBA, Bao et al., AISTATS 2024, Table 6)."""

import math
from dataclasses import dataclass

from robustfl_bench.base.errors import check_choice, check_fields
from robustfl_bench.schedules.base import Schedule


@dataclass(frozen=True)
class Step(Schedule):
    """Constant until round ``start`` (counted from 0), then multiplied by ``factor`` once per ``interval`` rounds.

    The paper (BOBA, Table 6) does not say whether the first decay is at ``start`` (``first_decay=start``, the default)
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
