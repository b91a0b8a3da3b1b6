"""Medoid: the update of least total distance (Kaufman and Rousseeuw, "Clustering by means of medoids", 1987)."""

from dataclasses import dataclass

import numpy as np
import torch

from robustfl_bench.numerics.gram_space import medoid
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Medoid(Aggregator):
    """The update with the least sum of distances to all others; in a tie, the first.

    The result is the x_k of least ``sum of |x_i - x_k|``, the geometric median restricted to the updates themselves.
    Krum differs in two ways: its distances are squared and only to the nearest clients.

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> updates = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.4, 0.4], [100.0, -100.0]])
        >>> rb.Medoid()(updates).round(2)  # the last client attacks
        array([0.4, 0.4])
    """

    square_matrices = 4

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        weights = torch.zeros_like(updates.counts)
        weights[medoid(updates.gram.cpu().numpy(), np.ones(updates.n))] = 1
        return updates.combine(weights)
