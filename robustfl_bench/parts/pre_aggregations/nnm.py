"""NNM, nearest neighbour mixing: every update is replaced by the mean of its nearest updates.

Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, AISTATS 2023, Algorithm 2, https://arxiv.org/abs/2302.01772.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.selection import nearest_shares, num_kept
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.pre_aggregations.base import PreAggregation


@dataclass(frozen=True)
class Nnm(PreAggregation):
    """The means of the n - f updates nearest to each update, itself included; with f = 0, all are the plain mean.

    Update i becomes ``mean of x_j over the n - f least |x_i - x_j|``. Updates at the same distance share the remaining
    weight equally.
    """

    square_matrices = 5

    num_byzantine: Annotated[int, at_least(0)]
    """f: every update is replaced by the mean of its n - f nearest ones"""

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client."""
        num_kept("NNM", n, self.num_byzantine)

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        kept = num_kept("NNM", updates.n, self.num_byzantine)
        return updates.mix(nearest_shares(updates.sq_dists, kept))
