"""Average: the mean of all updates (FedAvg, McMahan et al., AISTATS 2017, https://arxiv.org/abs/1602.05629)."""

from dataclasses import dataclass

from robustfl_bench.interfaces import Aggregator, RingForm, ServerView, check_flags
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class Average(Aggregator):
    """Mean of the updates, each client counting once, or by its samples with ``weighted``. Not robust."""

    weighted: bool = False

    def __post_init__(self) -> None:
        check_flags(self, "weighted")

    @property
    def ring(self) -> RingForm | None:
        """Ring-all-reduce (RAR), which knows no sample counts."""
        return None if self.weighted else RingForm(lambda updates: updates, lambda total, n: total / n)

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        weights = updates.counts if self.weighted else updates.counts.new_ones(updates.n)
        return updates.combine(weights / weights.sum())
