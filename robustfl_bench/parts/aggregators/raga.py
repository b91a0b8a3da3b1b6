"""RAGA's rule: the geometric median, weighted by data (Zuo et al., arXiv 2403.13374, Algorithm 1); also Byrd-SAGA's."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch

from robustfl_bench.base.fields import Flag, at_least
from robustfl_bench.numerics.gram_space import medoid, recentred, spread
from robustfl_bench.numerics.medians import geometric_median
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Raga(Aggregator):
    """The vector of least mean distance to the updates, weighted by samples, or equally without ``weighted``.

    The result minimises ``sum of m_i |x_i - y| / sum of m_i`` over y, for sample counts m_i. Robust while less than
    half of the weight is Byzantine. The mean distance is within ``eps`` of the minimum; every result is verified, not
    assumed after a number of steps (see ``numerics.medians``). The unit of ``eps`` is the median distance from the
    medoid; in the paper ``eps`` is an absolute length.
    """

    eps: Annotated[float, at_least(0)] = 1e-5
    """largest excess of the mean distance over its minimum, in median distances from the medoid"""
    weighted: Flag = True
    """true: by the clients' sample counts; false: each client counts once"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        masses = updates.counts.cpu().numpy() if self.weighted else np.ones(updates.n)
        gram = updates.gram.cpu().numpy()
        unit = spread(recentred(gram, medoid(gram, masses)), masses)
        weights = geometric_median(gram, masses, self.eps * unit)
        return updates.combine(torch.from_numpy(weights).to(updates.device))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return replace(self, weighted=True).aggregate(updates, server)
