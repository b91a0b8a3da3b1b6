"""A learning rate that falls in steps (BOBA, Bao et al., AISTATS 2024, Table 6)."""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.schedules.base import Schedule


@dataclass(frozen=True)
class Step(Schedule):
    """Constant until round ``start`` (counted from 0), then multiplied by ``factor`` once per ``interval`` rounds.

    The paper (BOBA, Table 6) does not say whether the first decay is at ``start`` (``first_decay=start``, the default)
    or one interval later (``first_decay=late``).
    """

    start: Annotated[int, at_least(0)]
    """rounds at the initial rate"""
    interval: Annotated[int, at_least(1)]
    """rounds between decays"""
    factor: Annotated[float, between(0, 1)]
    """factor of each decay"""
    first_decay: Annotated[str, one_of(start="the one after those at the initial rate", late="one interval later")] = (
        "start"
    )
    """the round of the first decay"""

    def __call__(self, lr: float, round: int) -> float:
        if round < self.start:
            return lr
        decays = (round - self.start) // self.interval + (1 if self.first_decay == "start" else 0)
        return lr * self.factor**decays
