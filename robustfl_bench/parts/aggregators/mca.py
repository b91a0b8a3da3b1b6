"""MCA, maximum correntropy aggregation (Luan et al., IEEE TNNLS 2024), as a baseline of RAGA (arXiv 2403.13374)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from robustfl_bench.base.fields import SCALE, at_least
from robustfl_bench.numerics.gram_space import Array, length, medoid, recentred, spread, sq_dists_to
from robustfl_bench.numerics.selection import sq_dists_to_mean
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Mca(Aggregator):
    """The vector most similar to the updates under a Gaussian kernel: a fixed point of their kernel-weighted mean.

    Weights are exp(-|x_i - y|^2 / (2 sigma^2)). The iteration starts at the mean and stops after a step, but not the
    first, of at most ``eps`` or after ``max_iter`` steps; the unit of ``eps`` is the updates' median distance from
    their medoid. The kernel's width is not published; ``sigma`` null recomputes it in every step. Clients have equal
    masses. A fixed sigma that is small compared with the distances gives the update nearest to the mean; a large sigma
    gives the mean.
    """

    sigma: Annotated[float | None, at_least(1e-150), SCALE] = None
    """width of the kernel; null: the median distance of the updates from the iterate"""
    eps: Annotated[float, at_least(0)] = 1e-5
    """shortest step that continues, in median distances from the medoid"""
    max_iter: Annotated[int, at_least(1)] = 100
    """maximum number of steps"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        gram, masses = updates.gram.cpu().numpy(), np.ones(updates.n)
        gram = recentred(gram, medoid(gram, masses))
        tolerance = self.eps * spread(gram, masses)
        weights = self._kernel(sq_dists_to_mean(updates, gram, masses))
        for _ in range(self.max_iter - 1):
            previous, weights = weights, self._kernel(sq_dists_to(gram, weights))
            if length(gram, weights - previous) <= tolerance:
                break
        return updates.combine(torch.from_numpy(weights).to(updates.device))

    def _kernel(self, sq_dists: Array) -> Array:
        width = float(np.median(sq_dists)) if self.sigma is None else self.sigma**2
        if width == 0:  # most updates are identical
            likeness = (sq_dists == 0).astype(np.float64)
        else:  # up to a factor, so that not all of them underflow
            likeness = np.exp((sq_dists.min() - sq_dists) / (2 * width))
        weights: Array = likeness / likeness.sum()
        return weights
