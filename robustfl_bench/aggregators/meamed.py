"""MeaMed, the mean around the median (Xie, Koyejo, Gupta, arXiv 1802.10116, section 3, "mean-around-median")."""

import math
from dataclasses import dataclass

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.base.errors import check_choice, check_fields
from robustfl_bench.numerics.near_median import mean_near_median
from robustfl_bench.numerics.ranking import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates


@dataclass(frozen=True)
class MeaMed(Aggregator):
    """Mean of the n - f values of every coordinate that are nearest to its median; needs n > 2f. f = 0 gives the mean.

    For an even number of clients, the median is the ``mean`` of the two middle values, or the ``lower`` one, as in
    ``torch.median``, by ``even``. byzpy calls this rule mean of medians.
    """

    num_byzantine: int
    even: str = "mean"

    def __post_init__(self) -> None:
        check_fields(self, num_byzantine=(0, math.inf))
        check_choice("even", self.even, ("mean", "lower"))

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for f."""
        require_majority("MeaMed", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        return Aggregate(mean_near_median(updates, updates.n - self.num_byzantine, self.even))
