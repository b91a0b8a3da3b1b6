"""A learning rate that does not change."""

from dataclasses import dataclass

from robustfl_bench.parts.schedules.base import Schedule


@dataclass(frozen=True)
class Constant(Schedule):
    """The initial rate in every round."""

    def __call__(self, lr: float, round: int) -> float:
        return lr
