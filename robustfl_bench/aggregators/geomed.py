"""Geometric median by Weiszfeld's iteration (Chen et al., POMACS 2017; iteration: Vardi and Zhang, PNAS 2000)."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.base.errors import check_fields
from robustfl_bench.numerics.gram_space import weiszfeld
from robustfl_bench.numerics.updates import Aggregate, Updates


@dataclass(frozen=True)
class GeoMed(Aggregator):
    """The vector of least total distance to the updates, with equal weights; robust below half Byzantine.

    The iteration starts at the medoid, the update of least total distance to the others, and stops after a step of at
    most ``eps`` or after ``max_iter`` steps. Updates within ``eps`` of the iterate are treated as equal to it. The unit
    of ``eps`` is the median distance from the medoid. The defaults are those of the hdmedians package, which BOBA uses.
    That package starts at the mean, where huge updates can cancel and leave only rounding errors, and its ``eps`` is an
    absolute length.
    """

    eps: float = 1e-8
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_fields(self, eps=(0, math.inf), max_iter=(1, math.inf))

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        weights = weiszfeld(updates.gram.cpu().numpy(), np.ones(updates.n), self.eps, self.max_iter)
        return updates.combine(torch.from_numpy(weights).to(updates.device))
