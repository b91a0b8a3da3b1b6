"""RFA: a few steps towards the geometric median (Pillutla, Kakade, Harchaoui, IEEE TSP 2022, arXiv 1912.13445)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import torch

from robustfl_bench.base.fields import Flag, at_least
from robustfl_bench.numerics.gram_space import Array, medoid, recentred, spread, sq_dists_to
from robustfl_bench.numerics.passes import sq_dists_by_pass, worth_passes
from robustfl_bench.numerics.selection import sq_dists_to_mean
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

LEAST = 1e-100  # far below all distances of float32 vectors; if most updates are identical, they get all the weight
ROUNDING = 1e-6  # relative to the longest distance; shorter distances may be inaccurate if all updates are far from 0


@dataclass(frozen=True)
class Rfa(Aggregator):
    """``steps`` steps of the smoothed Weiszfeld iteration from the weighted mean, with weights m_i / max(nu, |x_i -
    y|).

    The m_i are the clients' sample counts, or equal without ``weighted``. The paper uses nu = 1e-6 and 3 steps. The
    authors aggregate models, which is equivalent to aggregating differences from one model. The unit of ``nu`` is the
    updates' median distance from their medoid; in the paper it is an absolute length. Three steps do not reach the
    median if the outliers are very far.

    Code: the authors make 4 steps (``steps=4``) and stop earlier when the objective falls by less than a millionth.
    """

    exempt: ClassVar[Mapping[str, str]] = {"robust": "a few steps from a wild mean do not come back"}

    nu: Annotated[float, at_least(1e-300)] = 1e-6
    """smallest distance used in a weight, in median distances from the medoid"""
    steps: Annotated[int, at_least(0)] = 3
    """steps of Weiszfeld's iteration, which starts at the mean"""
    weighted: Flag = True
    """true: by the clients' sample counts; false: each client counts once"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        masses = updates.counts.cpu().numpy() if self.weighted else np.ones(updates.n)
        weights = self._by_passes(updates, masses) if worth_passes(updates, self.steps) else None
        if weights is None:
            weights = self._by_products(updates, masses)
        return updates.combine(torch.from_numpy(weights).to(updates.device))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return replace(self, weighted=True).aggregate(updates, server)

    def _by_passes(self, updates: Updates, masses: Array) -> Array | None:
        """The updates' weights (n,), or None if ``nu`` or rounding could affect them.

        The median distance from the medoid is at most the largest distance between two updates, which is at most twice
        the longest distance from any point. So ``nu`` has no effect while all distances are longer than that times
        ``nu``.
        """
        weights: Array = masses / masses.sum()
        for _ in range(self.steps):
            dists = np.sqrt(sq_dists_by_pass(updates, weights))
            if not dists.min() > max(2 * self.nu, ROUNDING) * dists.max():
                return None
            weights = masses / dists
            weights /= weights.sum()
        return weights

    def _by_products(self, updates: Updates, masses: Array) -> Array:
        """The updates' weights (n,) from their inner products, valid for all updates."""
        gram = updates.gram.cpu().numpy()
        gram = recentred(gram, medoid(gram, masses))
        floor = max(self.nu * spread(gram, masses), LEAST)
        weights: Array = masses / masses.sum()
        sq_dists = sq_dists_to_mean(updates, gram, masses)
        for step in range(self.steps):
            pulls = masses / np.sqrt(sq_dists).clip(min=floor)
            weights = pulls / pulls.sum()
            if step + 1 < self.steps:
                sq_dists = sq_dists_to(gram, weights)
        return weights
