"""SMEA, smallest maximum eigenvalue averaging (Allouah, Guerraoui, Gupta, Pinot, Stephan, ICML 2023, section 5.1).

"On the privacy-robustness-utility trilemma in distributed learning", https://arxiv.org/abs/2302.04787.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.least_spread import least_spread
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

MAX_SUBSETS = 100_000


@dataclass(frozen=True)
class Smea(Aggregator):
    """Mean of the n - f updates whose covariance has the least largest eigenvalue; needs n > 2f.

    That eigenvalue is the largest ``mean of <x_i - m, u>^2`` over the set, with mean m, in a direction u of length 1.
    All sets of n - f clients are compared, 4845 sets for f = 4 of n = 20; in a tie any may be selected.

    Code: ByzFL approximates the eigenvalue by one step of the power method from a random vector; here it is exact.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: n - f clients are averaged; all sets of that size are compared"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for f, or if the search would be too long."""
        f = self.num_byzantine
        require_majority("SMEA", n, f)
        if (subsets := math.comb(n, f)) > MAX_SUBSETS:
            raise ConfigError(
                f"SMEA would try {subsets:.3g} sets of clients a round (limit {MAX_SUBSETS}), got n={n}, f={f}; "
                "use aggregator=caf or fewer clients"
            )

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        members = least_spread(updates.gram.cpu().numpy(), self.num_byzantine)
        weights = torch.zeros_like(updates.counts)
        weights[members] = 1 / len(members)
        return updates.combine(weights)

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)
