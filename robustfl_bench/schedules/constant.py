"""A learning rate that stays as it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """The initial rate in every round."""

    def __call__(self, lr: float, round: int) -> float:
        return lr
