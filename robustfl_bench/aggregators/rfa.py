"""RFA: a few steps towards the geometric median (Pillutla, Kakade, Harchaoui, IEEE TSP 2022, arXiv 1912.13445)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from robustfl_bench.interfaces import Aggregator, ServerView, check_fields, check_flags
from robustfl_bench.numerics.gram_space import medoid, recentred, spread, sq_dists_to
from robustfl_bench.numerics.mean_distances import sq_dists_to_mean
from robustfl_bench.updates import Aggregate, Updates

LEAST = 1e-100  # far below every distance of float32 vectors: where most updates are one, it has all the weight


@dataclass(frozen=True)
class Rfa(Aggregator):
    """``steps`` of the smoothed Weiszfeld iteration from the weighted mean: weights m_i / max(nu, |x_i - y|).

    m_i are the clients' sample counts, or equal without ``weighted``. The paper takes nu = 1e-6 and 3 steps, its code 4
    and ends earlier when the objective falls by less than a millionth; the authors aggregate models, which is the
    same as aggregating differences from one model. The unit of ``nu`` is the updates' median distance from their
    medoid; in the paper it is an absolute length. So few steps do not reach the median when the outliers are very far.
    """

    exempt: ClassVar[Mapping[str, str]] = {"robust": "a few steps from a wild mean do not come back"}

    nu: float = 1e-6
    steps: int = 3
    weighted: bool = True

    def __post_init__(self) -> None:
        check_fields(self, nu=(1e-300, math.inf), steps=(0, math.inf))
        check_flags(self, "weighted")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        gram = updates.gram.cpu().numpy()
        masses = updates.counts.cpu().numpy() if self.weighted else np.ones(updates.n)
        gram = recentred(gram, medoid(gram, masses))
        floor = max(self.nu * spread(gram, masses), LEAST)
        weights, sq_dists = masses / masses.sum(), sq_dists_to_mean(updates, gram, masses)
        for _ in range(self.steps):
            pulls = masses / np.sqrt(sq_dists).clip(min=floor)
            weights = pulls / pulls.sum()
            sq_dists = sq_dists_to(gram, weights)
        return updates.combine(torch.from_numpy(weights).to(updates.device))
