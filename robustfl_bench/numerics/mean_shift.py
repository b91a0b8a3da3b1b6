"""Mean shift clustering of a few points (Comaniciu, Meer, IEEE TPAMI 2002), with a flat kernel."""

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.numerics.gram_space import Array

MAX_ITER = 300
STILL = 1e-3  # largest coordinate of a step that ends the search, in units of the bandwidth


def largest_cluster(points: Array, quantile: float = 0.5) -> NDArray[np.bool_]:
    """Mask (n,) of the points (n, k) in the largest cluster; points far from all clusters belong to none.

    The bandwidth is the distance within which a point has the share ``quantile`` of the points, itself included,
    averaged over all points. From every point, a centre moves to the mean of all points within the bandwidth, again and
    again. A centre within the bandwidth of one with more points around it is dropped. A point belongs to the nearest
    centre, if within the bandwidth. Of clusters of the same size, the one with more points around its centre wins.
    """
    n = len(points)
    dists = _distances(points, points)
    bandwidth = float(np.sort(dists, axis=1)[:, max(int(quantile * n), 1) - 1].mean())
    centres = points
    for _ in range(MAX_ITER if bandwidth else 0):  # at bandwidth 0, a mean of equal points can be off by rounding
        near = _distances(centres, points) <= bandwidth
        moved = near @ points / near.sum(axis=1, keepdims=True)
        still = np.abs(moved - centres).max() <= STILL * bandwidth
        centres = moved
        if still:
            break
    around = (_distances(centres, points) <= bandwidth).sum(axis=1)
    order = np.lexsort([*-centres.T[::-1], -around])  # ties by coordinates, for any order of the points
    apart, kept = _distances(centres, centres) > bandwidth, list[int]()
    for i in order:
        if apart[i, kept].all():
            kept.append(i)
    towards = _distances(points, centres[kept])
    labels = np.where(towards.min(axis=1) <= bandwidth, towards.argmin(axis=1), len(kept))
    members: NDArray[np.bool_] = labels == np.bincount(labels, minlength=len(kept))[: len(kept)].argmax()
    return members


def _distances(left: Array, right: Array) -> Array:
    squares = (np.square(a[:, None] - b) for a, b in zip(left.T, right.T, strict=True))  # there are few features
    dists: Array = np.sqrt(sum(squares))
    return dists
