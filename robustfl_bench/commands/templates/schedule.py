"""A learning rate against the round: it falls by the same factor in every round."""

from dataclasses import dataclass

from robustfl_bench import Schedule, check_fields


@dataclass(frozen=True)
class Template(Schedule):
    """``lr * decay ** round``. A decay of 1 leaves the rate as it is."""

    decay: float = 0.99

    def __post_init__(self) -> None:
        check_fields(self, decay=(0, 1))

    def __call__(self, lr: float, round: int) -> float:
        """The rate of ``round`` (from 0)."""
        return float(lr * self.decay**round)
