"""MoNNA's rule: the mean of a trusted update and those nearest to it (Farhadkhani et al., ICML 2023, Algorithm 1).

https://proceedings.mlr.press/v202/farhadkhani23a.html
"""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import mean_of_lowest, mean_of_nearest, num_kept
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Monna(Aggregator):
    """Mean of the n - f updates nearest to a trusted one.

    The result is ``mean of x_i over the n - f least |x_i - t|``. The trusted update t is the server's own, by training
    on its own data, which is not part of the mean, or that of the client ``trusted``. In the paper, peers average and
    each trusts itself: nearest neighbour averaging (NNA), which is ``trusted`` 0 with ``protocol=gossip``, where a
    node's own row is the first.

    Code: there, a node hears n - f models, its own included, and averages the n - 2f nearest; here it hears all n and
    averages n - f.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: n - f updates are averaged"""
    trusted: Annotated[int | None, at_least(0)] = None
    """row of the trusted client, from 0, as in ByzFL; null: the server's own update"""

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client, or if there is no trusted client."""
        num_kept("MoNNA", n, self.num_byzantine)
        if self.trusted is not None and self.trusted >= n:
            raise ConfigError(f"trusted must be < n, got trusted={self.trusted}, n={n}")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        if updates.products_unknown:
            trusted = server.update if self.trusted is None else updates.columns[self.trusted]
            if (nearest := mean_of_nearest(updates, trusted, updates.n - self.num_byzantine)) is not None:
                return nearest
        if self.trusted is None:
            gram = updates.joint_gram(server.update[None])
            sq_dists = gram.diagonal()[:-1] - 2 * gram[:-1, -1]  # up to the squared length of the trusted update
        else:
            sq_dists = updates.sq_dists[self.trusted]
        return mean_of_lowest(updates, sq_dists, updates.n - self.num_byzantine)

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)
