"""MeaMed, the mean around the median (Xie, Koyejo, Gupta, arXiv 1802.10116, section 3, "mean-around-median")."""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.medians import mean_near_median
from robustfl_bench.numerics.sample_weights import largest_masses, mean_of_nearest
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class MeaMed(Aggregator):
    """Mean of the n - f values of every coordinate that are nearest to its median; needs n > 2f. f = 0 gives the mean.

    The result is ``mean of v_i over the n - f least |v_i - m|`` for the values v_i of a coordinate and their median m;
    of two values at the same distance, the smaller counts. byzpy calls this rule mean of medians.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: n - f values are averaged"""
    even: Annotated[str, one_of(mean="of the two middle values", lower="of the two, as in torch.median")] = "mean"
    """median of an even number of clients"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for f."""
        require_majority("MeaMed", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        return Aggregate(mean_near_median(updates, updates.n - self.num_byzantine, self.even))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        left_out = largest_masses(updates.counts, self.num_byzantine)
        return Aggregate(mean_of_nearest(updates, left_out, self.even == "lower"))
