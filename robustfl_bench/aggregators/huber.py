"""The minimiser of Huber's loss of the updates' distances (Zhao, Yu, Wan, AAAI 2024,
https://arxiv.org/abs/2308.12581)."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.base.errors import check_fields, check_flags
from robustfl_bench.numerics.geometric_median import geometric_median
from robustfl_bench.numerics.gram_space import length, medoid, recentred, spread, sq_dists_to
from robustfl_bench.numerics.updates import Aggregate, Updates


@dataclass(frozen=True)
class Huber(Aggregator):
    """The vector of least mean Huber loss, which is quadratic up to the distance ``threshold`` and linear beyond.

    Small thresholds give the geometric median, large ones the mean. The paper derives a threshold from the noise of the
    gradients, which a server does not know; ``threshold`` null is the updates' median distance from their medoid.
    Clients are weighted by samples, or equally without ``weighted``. The iteration is the paper's, started at the
    geometric median: means with weights ``m_i min(1, threshold / |x_i - y|)``, until a step is at most ``eps`` times
    the median distance from the medoid, or for ``max_iter`` steps.
    """

    threshold: float | None = None
    weighted: bool = True
    eps: float = 1e-8
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_fields(self, threshold=(1e-100, math.inf), eps=(0, math.inf), max_iter=(1, math.inf))
        check_flags(self, "weighted")

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
