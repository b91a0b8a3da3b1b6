"""Distances of the updates to their mean, precise even if huge updates cancel in the mean."""

import numpy as np
import torch

from robustfl_bench.numerics.gram_space import Array, sq_dists_to
from robustfl_bench.numerics.inner_products import BLOCK
from robustfl_bench.numerics.updates import Updates

DIGITS = 1e-6  # largest relative error at which squared distances are taken from inner products
FOLD = 4  # sums have this many times the digits of float64


def sq_dists_to_mean(updates: Updates, gram: Array, masses: Array) -> Array:
    """Squared distances (n,) of the updates to their mean, weighted by ``masses`` (n,).

    ``gram`` (n, n) holds the inner products relative to one of the updates. Attackers that send v and -v leave a mean
    of ordinary size, but its inner products have rounding errors of the order of |v|^2. The mean is then computed by
    coordinate.
    """
    weights = masses / masses.sum()
    sq_dists = sq_dists_to(gram, weights)
    lengths = np.sqrt(gram.diagonal().clip(min=0))
    error = len(gram) * np.finfo(np.float64).eps * (lengths + weights @ lengths) ** 2
    if (error <= DIGITS * sq_dists).all():
        return sq_dists
    exact, matrix = np.zeros(updates.n), updates.columns.cpu().numpy()
    for start in range(0, matrix.shape[1], BLOCK):
        block = matrix[:, start : start + BLOCK].astype(np.float64)
        exact += np.square(block - exact_sum(masses[:, None] * block) / masses.sum()).sum(axis=1)
    return updates.place.sum(torch.from_numpy(exact)).numpy()


def exact_sum(rows: Array) -> Array:
    """The sum (d,) of the rows (n, d), as if computed with four times the digits of float64, then rounded.

    Every addition passes its rounding error on to the next (Ogita, Rump, Oishi, SIAM J. Sci. Comput. 2005, SumK).
    """
    parts = rows.copy()
    for _ in range(FOLD - 1):
        for i in range(1, len(parts)):
            total = parts[i] + parts[i - 1]
            share = total - parts[i]
            parts[i - 1] = (parts[i] - (total - share)) + (parts[i - 1] - share)
            parts[i] = total
    summed: Array = parts.sum(axis=0)
    return summed
