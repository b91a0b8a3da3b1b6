"""Coordinate-wise median (Yin et al., ICML 2018, https://arxiv.org/abs/1803.01498)."""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.base.fields import one_of
from robustfl_bench.numerics.updates import Aggregate, Updates


@dataclass(frozen=True)
class CooMed(Aggregator):
    """Median of every coordinate; robust while fewer than half of the clients are Byzantine."""

    even: Annotated[str, one_of(mean="of the two middle values", lower="of the two, as in torch.median")] = "mean"
    """median of an even number of clients"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        lower, upper = (updates.n - 1) // 2, updates.n // 2
        if lower == upper or self.even == "lower":
            return Aggregate(updates.by_sorted_column(lambda values: values[:, lower]))
        # Halved before they are added, as the sum of two large floats could overflow.
        return Aggregate(updates.by_sorted_column(lambda values: values[:, lower] * 0.5 + values[:, upper] * 0.5))
