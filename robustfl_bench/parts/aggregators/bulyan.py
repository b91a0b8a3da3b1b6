"""Bulyan: Krum selects clients, and a trimmed mean around the median aggregates their updates.

El Mhamdi, Guerraoui, Rouault, ICML 2018, section 4, https://arxiv.org/abs/1802.07927.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.medians import mean_near_median
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bulyan(Aggregator):
    """Mean of the n - 4f values of every coordinate nearest to the median, among n - 2f clients that Krum selects.

    With ``selection`` ``repeated``, Krum selects one client at a time and removes it, until n - 2f are selected: of the
    m remaining clients, the one of least ``score_i = sum of |x_i - x_j|^2 over the max(m - f - 2, 1) nearest j != i``.
    With ``once``, the n - 2f clients with the best scores of a single pass are selected, as in several libraries. Of
    clients with equal scores the one whose others are nearer comes first, so that the order of clients has no
    influence: with f <= 2 the last score is one distance, and the two nearest clients always share it. Theory and
    ``check`` require n >= 4f + 3; the rule can be computed for n >= 4f + 1, so that it also runs on the few means that
    bucketing makes.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: n - 2f clients are selected, n - 4f of their values averaged"""
    selection: Annotated[
        str, one_of(repeated="on the remaining updates, as in the paper", once="the best scores of a single pass")
    ] = "repeated"
    """how Krum selects"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for Bulyan's guarantee."""
        if n < 4 * self.num_byzantine + 3:
            raise ConfigError(
                f"Bulyan needs n >= 4f + 3, got n={n}, f={self.num_byzantine}; lower num_byzantine_declared"
            )

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError if trimming leaves no value."""
        if n <= 4 * self.num_byzantine:
            raise ConfigError(f"Bulyan cannot trim unless n > 4f, got n={n}, f={self.num_byzantine}")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        n, f = updates.n, self.num_byzantine
        self.check_mixed(n)
        dists = updates.sq_dists.cpu().numpy().copy()
        np.fill_diagonal(dists, math.inf)
        chosen = self._repeated(dists) if self.selection == "repeated" else _by_score(dists, f)
        return Aggregate(mean_near_median(updates.of_clients(np.sort(chosen[: n - 2 * f])), n - 4 * f))

    def _repeated(self, dists: Array) -> NDArray[np.intp]:
        """The clients in the order in which repeated Krum selects them."""
        left, chosen = list(range(len(dists))), []
        for _ in range(len(dists) - 2 * self.num_byzantine):
            chosen.append(left.pop(int(_by_score(dists[np.ix_(left, left)], self.num_byzantine)[0])))
        return np.array(chosen)


def _by_score(dists: Array, f: int) -> NDArray[np.intp]:
    """Clients (m,) from the least to the largest of Krum's scores, the sums of the squared distances to the m - f - 2
    nearest others, at least one; of equal scores by the distance to the nearest, then to the next, and so on."""
    near = np.sort(dists, axis=1)
    scores = near[:, : max(len(dists) - f - 2, 1)].sum(axis=1)
    order: NDArray[np.intp] = scores.argsort(kind="stable")
    if (np.diff(scores[order]) == 0).any():
        order = np.lexsort((*near.T[::-1], scores))
    return order
