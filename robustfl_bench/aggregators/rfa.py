"""RFA: a few steps towards the geometric median (Pillutla, Kakade, Harchaoui, IEEE TSP 2022, arXiv 1912.13445)."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from robustfl_bench.interfaces import Aggregator, ServerView, check_fields, check_flags
from robustfl_bench.numerics.gram_space import recentred, sq_dists_to
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class Rfa(Aggregator):
    """``steps`` of the smoothed Weiszfeld iteration from the weighted mean: weights m_i / max(nu, |x_i - y|).

    m_i are the clients' sample counts, or equal without ``weighted``. The paper takes nu = 1e-6 and 3 steps, its code 4
    and ends earlier when the objective falls by less than a millionth; the authors aggregate models, which is the
    same as aggregating differences from one model. So few steps do not reach the median when the outliers are very
    far.
    """

    nu: float = 1e-6
    steps: int = 3
    weighted: bool = True

    def __post_init__(self) -> None:
        check_fields(self, nu=(1e-300, math.inf), steps=(0, math.inf))
        check_flags(self, "weighted")

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        gram = recentred(updates.gram.cpu().numpy())
        masses = updates.counts.cpu().numpy() if self.weighted else np.ones(updates.n)
        weights = masses / masses.sum()
        for _ in range(self.steps):
            pulls = masses / np.sqrt(sq_dists_to(gram, weights)).clip(min=self.nu)
            weights = pulls / pulls.sum()
        return updates.combine(torch.from_numpy(weights).to(updates.device))
