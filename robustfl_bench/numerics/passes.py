"""Distances by reading the updates again, which for many updates costs less than their inner products."""

import numpy as np
import torch

from robustfl_bench.base.parallel import each
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.inner_products import BLOCK, CACHED, STRIPS
from robustfl_bench.numerics.updates import Updates

PASS = 50  # inner products with this many updates take as long as a pass


def worth_passes(updates: Updates, passes: int) -> bool:
    """Whether this many passes over the updates cost less than their Gram matrix."""
    return updates.device.type == "cpu" and passes * PASS < updates.n


def sq_dists_by_pass(updates: Updates, weights: Array) -> Array:
    """Squared distances (n,) of the updates on the CPU to their combination with ``weights`` (n,), which sum to 1.

    Both the combination and the differences from it are computed in float64, by blocks of columns that are read once.
    The error of a distance is about 1e-16 times n times the norm of the longest update.
    """
    matrix = updates.columns.numpy()
    d = matrix.shape[1]
    step = max(1, min(BLOCK, CACHED // updates.n))
    length = step * -(-d // (STRIPS * step))

    def strip(start: int) -> Array:
        total, room = np.zeros(updates.n), np.empty((updates.n, step))
        for first in range(start, min(start + length, d), step):
            block = room[:, : min(step, d - first)]
            np.copyto(block, matrix[:, first : first + step])
            block -= weights @ block
            total += np.vecdot(block, block)
        return total

    sums: Array = np.sum(each(strip, range(0, d, length)), axis=0)
    return updates.place.sum(torch.from_numpy(sums)).numpy()
