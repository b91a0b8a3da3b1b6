"""The minimiser of Huber's loss of the updates' distances (Zhao, Yu, Wan, AAAI 2024,
https://arxiv.org/abs/2308.12581)."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch

from robustfl_bench.base.fields import SCALE, Flag, at_least
from robustfl_bench.numerics.gram_space import length, medoid, recentred, spread, sq_dists_to
from robustfl_bench.numerics.medians import geometric_median
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Huber(Aggregator):
    """The vector of least mean Huber loss, which is quadratic up to the distance ``threshold`` and linear beyond.

    Small thresholds give the geometric median, large ones the mean. The paper derives a threshold from the noise of the
    gradients, which a server does not know. The iteration is the paper's, started at the geometric median: means with
    weights ``m_i min(1, threshold / |x_i - y|)``, until a step is at most ``eps`` times the median distance from the
    medoid, or for ``max_iter`` steps.
    """

    threshold: Annotated[float | None, at_least(1e-100), SCALE] = None
    """distance beyond which the loss is linear; null: the median distance from the medoid"""
    weighted: Flag = True
    """true: by the clients' sample counts; false: each client counts once"""
    eps: Annotated[float, at_least(0)] = 1e-8
    """shortest step that continues, in median distances from the medoid"""
    max_iter: Annotated[int, at_least(1)] = 1000
    """maximum number of steps"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        masses = updates.counts.cpu().numpy() if self.weighted else np.ones(updates.n)
        gram = updates.gram.cpu().numpy()
        gram = recentred(gram, medoid(gram, masses))
        unit = spread(gram, masses)
        weights = geometric_median(gram, masses, self.eps * unit)
        threshold = unit if self.threshold is None else self.threshold
        for _ in range(self.max_iter if threshold > 0 else 0):
            dists = np.sqrt(sq_dists_to(gram, weights))
            pulls = masses * np.divide(threshold, dists, out=np.ones_like(dists), where=dists > threshold)
            previous, weights = weights, pulls / pulls.sum()
            if length(gram, weights - previous) <= self.eps * unit:
                break
        return updates.combine(torch.from_numpy(weights).to(updates.device))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return replace(self, weighted=True).aggregate(updates, server)
