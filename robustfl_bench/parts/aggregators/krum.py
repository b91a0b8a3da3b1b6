"""Krum and Multi-Krum: updates close to their neighbours (Blanchard et al., NeurIPS 2017)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, at_least
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.selection import lowest, nearest_sums
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Krum(Aggregator):
    """The update with the least sum of squared distances to its n - f - 2 nearest others.

    With ``score_i = sum of |x_i - x_j|^2 over the n - f - 2 nearest j != i``, Krum selects the update of least score,
    and Multi-Krum (``num_selected`` > 1) averages that many updates of least score. In a tie the first update is
    selected, as in the paper. The theory needs n > 2f + 2, which ``check`` enforces; the rule itself only needs one
    neighbour per update, so that it also runs on the few means that bucketing makes (``check_mixed``).

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> updates = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.5], [100.0, -100.0]])
        >>> rb.Krum(num_byzantine=1)(updates)  # the last client attacks; the fifth is closest to the others
        array([0.5, 0.5])

    Code: ARFL's (Li et al., arXiv 2101.05880) differs in all of these: ``num_byzantine`` is null, regardless of the
    theory, and as many updates are selected; distances are not ``squared``; and it has ``self_distance`` and
    ``weighted``. ByzFL sums over one neighbour more.
    """

    square_matrices = 3

    num_byzantine: Annotated[int | None, at_least(0)]
    """f: an update is compared with its n - f - 2 nearest others; null: half of the clients of the round"""
    num_selected: Annotated[int | None, at_least(1)] = 1
    """best updates averaged; null: n - f, as in BOBA"""
    squared: Flag = True
    """true: scores are sums of squared distances"""
    self_distance: Flag = False
    """true: an update is the first of its own n - f - 2 neighbours"""
    weighted: Flag = False
    """true: the selected updates are weighted by samples"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for Krum's guarantee, or for its selection."""
        if self.num_byzantine is not None and n <= 2 * self.num_byzantine + 2:
            raise ConfigError(f"Krum needs n > 2f + 2, got n={n}, f={self.num_byzantine}; lower num_byzantine_declared")
        if self.num_selected is not None and self.num_selected > n:
            raise ConfigError(f"num_selected must be <= n, got num_selected={self.num_selected}, n={n}")

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError if an update has no neighbour to compare with."""
        f, least = self._f(n), 2 + self.self_distance
        if n <= f + least:
            raise ConfigError(f"Krum cannot compare updates unless n > f + {least}, got n={n}, f={f}")

    def _f(self, n: int) -> int:
        return n // 2 if self.num_byzantine is None else self.num_byzantine

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        n = updates.n
        self.check_mixed(n)
        chosen = lowest(updates, lambda sq_dists: self._scores(sq_dists, n), self._selected(n))
        if not self.weighted:
            weights = np.zeros(n)
            weights[chosen.detach().cpu().numpy()] = 1 / len(chosen)
            return updates.combine(weights)
        return updates.combine(self._weights(chosen, updates.counts))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return replace(self, weighted=True).aggregate(updates, server)

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        n = questions.n
        self.check_mixed(n)
        scores = torch.stack([self._scores(sq_dists, n) for sq_dists in questions.sq_dists])
        chosen = scores.argsort(dim=1, stable=True)[:, : self._selected(n)]
        return questions.combine(self._weights(chosen, questions.counts))

    def _scores(self, sq_dists: Tensor, n: int) -> Tensor:
        """The scores (n,) of n clients, from their squared distances (n, n)."""
        others = n - self._f(n) - 2 - self.self_distance
        return nearest_sums(sq_dists, others, self.squared)

    def _selected(self, n: int) -> int:
        """The number of updates that are averaged."""
        return self.num_selected or (self._f(n) if self.num_byzantine is None else n - self._f(n))

    def _weights(self, chosen: Tensor, counts: Tensor) -> Tensor:
        """The weights (..., n) of all clients when some are ``chosen`` (..., m)."""
        masses = counts[chosen] if self.weighted else counts.new_ones(chosen.shape)
        shares = masses / masses.sum(dim=-1, keepdim=True)
        return counts.new_zeros(*chosen.shape[:-1], len(counts)).scatter_(-1, chosen, shares)
