"""Geometric median by Weiszfeld's iteration in the form of Vardi and Zhang (PNAS 2000); Chen et al., POMACS 2017."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from robustfl_bench.interfaces import Aggregator, ServerView, check_fields
from robustfl_bench.numerics.gram_space import length, recentred, weiszfeld_step
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class GeoMed(Aggregator):
    """The vector of least total distance to the updates, each client counting once; robust below half Byzantine.

    Starts at the mean and stops when a step moves less than ``eps`` or after ``max_iter`` steps. Updates within
    ``eps`` of the iterate count as lying on it. Defaults are those of the hdmedians package, which BOBA uses.
    """

    eps: float = 1e-8
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_fields(self, eps=(0, math.inf), max_iter=(1, math.inf))

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        gram = recentred(updates.gram.cpu().numpy())
        masses = np.ones(updates.n)
        weights = masses / updates.n
        for _ in range(self.max_iter):
            previous, weights = weights, weiszfeld_step(gram, masses, weights, self.eps)
            if length(gram, weights - previous) < self.eps:
                break
        return updates.combine(torch.from_numpy(weights).to(updates.device))
