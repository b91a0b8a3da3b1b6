"""Mean shift clustering of a few points (Comaniciu, Meer, IEEE TPAMI 2002), with a flat kernel."""

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.numerics.gram_space import Array

MAX_ITER = 300
STILL = 1e-3  # largest coordinate of a step that ends the search, in units of the bandwidth
EQUAL = 1e-9  # difference of equal distances, in units of the bandwidth: rounding must not decide between them


def largest_cluster(points: Array, quantile: float = 0.5, bins: bool = False) -> NDArray[np.bool_]:
    """Mask (n,) of the points (n, k) in the largest cluster; points far from all clusters belong to none.

    The bandwidth is the distance within which a point has the share ``quantile`` of the points, itself included,
    averaged over all points. A centre starts at every point, or with ``bins`` at the middle of every cube of a grid of
    that size that holds a point, and moves to the mean of all points within the bandwidth, again and again. A centre
    within the bandwidth of one with more points around it is dropped. A point belongs to the nearest centre, if within
    the bandwidth. Of clusters of the same size, the one with more points around its centre wins.
    """
    n = len(points)
    dists = _distances(points, points)
    bandwidth = float(np.sort(dists, axis=1)[:, max(int(quantile * n), 1) - 1].mean())
    reach = bandwidth * (1 + EQUAL)
    centres = _in_bins(points, bandwidth, reach) if bins and bandwidth else points
    for _ in range(MAX_ITER if bandwidth else 0):  # at bandwidth 0, a mean of equal points can be off by rounding
        near = _distances(centres, points) <= reach
        moved = near @ points / near.sum(axis=1, keepdims=True)
        still = np.abs(moved - centres).max() <= STILL * bandwidth
        centres = moved
        if still:
            break
    around = (_distances(centres, points) <= reach).sum(axis=1)
    places = np.round(centres / (EQUAL * bandwidth)) if bandwidth else centres
    order = np.lexsort([*-places.T[::-1], -around])  # ties by coordinates, for any order of the points
    apart, kept = _distances(centres, centres) > reach, list[int]()
    for i in order:
        if apart[i, kept].all():
            kept.append(i)
    towards = _distances(points, centres[kept])
    least = towards.min(axis=1)
    nearest = (towards <= least[:, None] + EQUAL * bandwidth).argmax(axis=1)
    labels = np.where(least <= reach, nearest, len(kept))
    members: NDArray[np.bool_] = labels == np.bincount(labels, minlength=len(kept))[: len(kept)].argmax()
    return members


def _in_bins(points: Array, size: float, reach: float) -> Array:
    """The middles (m, k) of the cubes that hold a point and have a point within ``reach``; the points, if no two of
    them share a cube."""
    middles = np.unique(np.round(points / size), axis=0) * size
    if len(middles) == len(points):
        return points
    seeds: Array = middles[(_distances(middles, points) <= reach).any(axis=1)]
    return seeds


def _distances(left: Array, right: Array) -> Array:
    squares = (np.square(a[:, None] - b) for a, b in zip(left.T, right.T, strict=True))  # there are few features
    dists: Array = np.sqrt(sum(squares))
    return dists
