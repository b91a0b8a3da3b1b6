"""FABA: leave out the update farthest from the mean, again and again (Xia, Tao, Hao, Li, IJCAI 2019, Algorithm 1).

"FABA: an algorithm for fast aggregation against Byzantine attacks in distributed neural networks",
https://doi.org/10.24963/ijcai.2019/670.
"""

from dataclasses import dataclass
from typing import Annotated

import torch

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Faba(Aggregator):
    """Mean of the n - f updates that are left after f times leaving out the one farthest from the mean of those that
    are left; needs n > 2f. Of equally far updates, the first is left out.

    The distance is ``|x_i - m|`` from the mean m of all updates that are left, x_i included; the result is the last m.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: updates that are left out"""

    def check(self, n: int) -> None:
        """Raise ConfigError when n clients are too few for f."""
        require_majority("FABA", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        sq_dists = updates.sq_dists
        kept = torch.ones(updates.n, dtype=torch.bool, device=sq_dists.device)
        for _ in range(self.num_byzantine):
            # The squared distance from a mean is the mean squared distance from its points, less what all share.
            kept[sq_dists[:, kept].mean(dim=1).where(kept, -1.0).argmax()] = False
        weights = kept.to(updates.counts)
        return updates.combine(weights / weights.sum())

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)
