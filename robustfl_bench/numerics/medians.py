"""Medians: of every coordinate, the weighted geometric median with a proven bound, and mean shift clustering."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.numerics.gram_space import Array, length, medoid, recentred, sq_dists_to
from robustfl_bench.numerics.updates import Updates


def median(updates: Updates) -> Tensor:
    """The median (d,) of every coordinate; of an even number of clients, the mean of the two middle values."""
    lower, upper = (updates.n - 1) // 2, updates.n // 2
    # Halved before they are added, as the sum of two large floats could overflow.
    return updates.by_sorted_row(lambda rows: rows[lower] * 0.5 + rows[upper] * 0.5)


def mean_near_median(updates: Updates, count: int, even: str = "mean") -> Tensor:
    """Mean (d,) of the ``count`` values of every coordinate that are nearest to the coordinate's median.

    With an even number of clients, the median is the mean of the two middle values, or the lower one if ``even`` is
    "lower". Of two values at the same distance, the smaller is taken.
    """

    def reduce(block: Any) -> Any:
        values = torch.as_tensor(block)
        n = values.shape[1]
        lower, upper = (n - 1) // 2, (n - 1) // 2 if even == "lower" else n // 2
        twice = values[:, lower].double() + values[:, upper].double()
        return (sum_nearest(values, count, twice) / count).to(values.dtype)

    return updates.by_sorted_column(reduce)


def sum_nearest(values: Tensor, count: int, twice: Tensor) -> Tensor:
    """Sums (k,) float64 of the ``count`` values of each row of sorted ``values`` (k, n) nearest to ``twice / 2`` (k,).

    Of two values at the same distance, the smaller is taken.
    """
    # The values nearest to a point are neighbours in sorted order. The block of ``count`` values starts one place later
    # for every value whose distance to the point exceeds that of the value ``count`` places above it.
    pairs = values[:, count:].double() + values[:, : values.shape[1] - count].double()
    start = (pairs < twice[:, None]).sum(1)
    places = start[:, None] + torch.arange(count, device=values.device)
    return values.gather(1, places).sum(1, dtype=torch.float64)


# The weighted geometric median from inner products alone, with a proven bound on the error of its objective.
#
# The objective is f(y) = sum of m_i |x_i - y| over points with masses that sum to 1. The negative gradient is the
# resultant of the points' pulls on y. The pull of a point is the unit vector towards the point times its mass.


STEPS = 1000  # never reached: Newton's method needs about three
ROUNDING = 3e-8  # error of the resultant of unit pulls, which is the root of a sum of float64 products


def geometric_median(gram: Array, masses: Array, eps: float) -> Array:
    """Weights (n,), summing to 1, of a combination of the points whose f is within ``eps`` of the minimum.

    The gap exceeds ``eps`` only if float64 cannot resolve a further decrease of f.

    The search starts at the point with the lowest f. If this point is not the optimum, no point is. As f decreases with
    every step, the search never meets a point again, so nothing divides by zero. A step is Newton's, or Weiszfeld's
    where that is better.
    """
    masses = masses / masses.sum()
    best = medoid(gram, masses)
    gram = recentred(gram, best)
    weights: Array = np.eye(len(gram))[best]
    dists = np.sqrt(gram.diagonal())
    pulls = _pulls(masses, dists)
    resultant, hold = _resultant(gram, pulls, weights), masses[dists == 0].sum()
    if (resultant - hold) * radius(dists, masses) <= eps or resultant - hold <= ROUNDING:
        return weights
    weights += (1 - hold / resultant) * (pulls / pulls.sum() - weights)
    for _ in range(STEPS):
        distances = np.sqrt(sq_dists_to(gram, weights))
        pulls = _pulls(masses, distances)
        resultant = _resultant(gram, pulls, weights)
        if resultant * radius(distances, masses) <= eps or resultant <= ROUNDING:
            # A last Weiszfeld step: it does not increase f, and no weight is negative.
            return pulls / pulls.sum() if pulls.any() else weights
        steps = [_newton(gram, masses, distances, weights), pulls / pulls.sum()]
        changes = [_change(gram, masses, weights, step, distances) for step in steps]
        if min(changes) >= 0:
            break
        weights = steps[int(np.argmin(changes))]
    return weights


def radius(dists: Array, masses: Array) -> float:
    """Upper bound on the distance to the geometric median from a vector y at ``dists`` (n,) from points of ``masses``.

    For every set S of points with mass W > 1/2, f increases from y to any z by at least
    (2 W - 1) |y - z| - 2 sum_S m_i |x_i - y|, so the median is no farther than 2 sum_S m_i |x_i - y| / (2 W - 1). The
    nearest points make the best S, so outliers at any distance do not loosen the bound. As f is convex, the bound times
    the length of the gradient at y bounds f(y) minus the minimum of f.
    """
    order = np.argsort(dists)
    mass, moment = np.cumsum(masses[order]), np.cumsum((masses * dists)[order])
    majority = 2 * mass - mass[-1] > 1e-9
    return float((2 * moment[majority] / (2 * mass[majority] - mass[-1])).min())


def _pulls(masses: Array, dists: Array) -> Array:
    """Every mass, or row of masses, divided by its point's distance; 0 at distance 0."""
    return np.divide(masses, dists, out=np.zeros_like(masses), where=dists > 0)


def _resultant(gram: Array, pulls: Array, weights: Array) -> float:
    return length(gram, pulls - pulls.sum() * weights)


def _change(gram: Array, masses: Array, old: Array, new: Array, dists: Array) -> float:
    """The increase of f from the combination ``old``, at ``dists`` from the points, to the combination ``new``.

    A difference of two values of f would lose it to rounding when outliers are far away.
    """
    moved = gram @ (new - old)
    differences = moved @ (new + old) - 2 * moved  # of the squared distances
    sums = np.sqrt(sq_dists_to(gram, new)) + dists
    return float(masses @ np.divide(differences, sums, out=np.zeros_like(sums), where=sums > 0))


def _newton(gram: Array, masses: Array, dists: Array, weights: Array) -> Array:
    """Weights (n,) after Newton's step: with z_i = x_i - y the Hessian is s I - sum of (m_i / d_i^3) z_i z_i', where
    s = sum of m_i / d_i, so that the step is a combination of the z_i whose coefficients solve n equations.

    The unknowns are the coefficients times d_i. The system then consists of cosines and suits points at any distance.
    """
    pulls = _pulls(masses, dists)
    products = gram @ weights
    inner = gram - products - products[:, None] + weights @ products
    cosines = _pulls(_pulls(inner, dists).T, dists)
    system = pulls.sum() * np.eye(len(gram)) - pulls[:, None] * cosines
    try:
        step = _pulls(np.linalg.solve(system, masses), dists)
    except np.linalg.LinAlgError:  # all points on one line
        return weights
    moved: Array = (1 - step.sum()) * weights + step
    return moved


# Mean shift clustering of a few points (Comaniciu, Meer, IEEE TPAMI 2002), with a flat kernel.


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
