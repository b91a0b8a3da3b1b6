"""Clustering of a few points in two groups by k-means (Lloyd, IEEE Trans. Inf. Theory 1982), from their distances."""

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.numerics.gram_space import Array

MAX_ITER = 300
EQUAL = 1e-9  # share of the total of all squared distances below which differences are rounding errors


def two_groups(sq_dists: Array) -> NDArray[np.bool_]:
    """Mask (n,) of one of two groups of points with squared distances ``sq_dists`` (n, n); the rest is the other one.

    Lloyd's algorithm starts n times, each time from a point and the one farthest from it. Of the results, the one of
    least total squared distance from the means of the groups counts. So no random draw decides, as in the usual starts
    of k-means. Equal points are in one group; if all are equal, the other group is empty.
    """
    first = sq_dists <= sq_dists[sq_dists.argmax(axis=1)]  # (starts, n); ties belong to the first group
    for _ in range(MAX_ITER):
        nearer = _from_means(sq_dists, first) <= _from_means(sq_dists, ~first)
        if (nearer == first).all():
            break
        first = nearer
    spreads = np.array([_spread(sq_dists, each) + _spread(sq_dists, ~each) for each in first])
    group: NDArray[np.bool_] = first[int((spreads <= spreads.min() + EQUAL * sq_dists.sum()).argmax())]
    return group


def _from_means(sq_dists: Array, groups: NDArray[np.bool_]) -> Array:
    """Squared distances (k, n) of the points from the mean of each group (k, n); infinite for an empty one."""
    sizes = groups.sum(axis=1, keepdims=True)
    shares = groups / np.maximum(sizes, 1)
    means = shares @ sq_dists
    found: Array = np.where(sizes > 0, means - (means * shares).sum(axis=1, keepdims=True) / 2, np.inf)
    return found


def _spread(sq_dists: Array, group: NDArray[np.bool_]) -> float:
    """Total squared distance of the members of a group from their mean."""
    return float(sq_dists[np.ix_(group, group)].sum()) / (2 * max(int(group.sum()), 1))
