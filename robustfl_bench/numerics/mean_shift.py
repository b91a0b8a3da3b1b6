"""Mean shift clustering of a few points (Comaniciu, Meer, IEEE TPAMI 2002), with a flat kernel."""

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.numerics.gram_space import Array

MAX_ITER = 300
STILL = 1e-3  # a step, in units of the bandwidth


def largest_cluster(points: Array, quantile: float = 0.5) -> NDArray[np.bool_]:
    """Which points (n, k) are in the cluster that has most of them; points far from all clusters are in none.

    The bandwidth is the mean distance of a point from its ``quantile`` nearest ones, itself included. Every point
    climbs to the mean of all points within the bandwidth, again and again; ends that are closer than the bandwidth to
    one with more points around it are no cluster. A point belongs to the nearest cluster, if that is within the
    bandwidth. Of clusters of the same size, the one with more points around its centre.
    """
    n = len(points)
    dists = _distances(points, points)
    bandwidth = float(np.sort(dists, axis=1)[:, max(int(quantile * n), 1) - 1].mean())
    centres = points
    for _ in range(MAX_ITER if bandwidth else 0):  # without width, a mean of equal points can be off by rounding
        near = _distances(centres, points) <= bandwidth
        moved = near @ points / near.sum(axis=1, keepdims=True)
        still = np.abs(moved - centres).max() <= STILL * bandwidth
        centres = moved
        if still:
            break
    around = (_distances(centres, points) <= bandwidth).sum(axis=1)
    order = np.lexsort([*-centres.T[::-1], -around])  # equal densities by place, whatever the order of the points
    apart, kept = _distances(centres, centres) > bandwidth, list[int]()
    for i in order:
        if apart[i, kept].all():
            kept.append(i)
    towards = _distances(points, centres[kept])
    labels = np.where(towards.min(axis=1) <= bandwidth, towards.argmin(axis=1), len(kept))
    members: NDArray[np.bool_] = labels == np.bincount(labels, minlength=len(kept))[: len(kept)].argmax()
    return members


def _distances(left: Array, right: Array) -> Array:
    squares = (np.square(a[:, None] - b) for a, b in zip(left.T, right.T, strict=True))  # of a few features
    dists: Array = np.sqrt(sum(squares))
    return dists
