"""Geometry of points of which a rule has only the Gram matrix.

A vector is given by its coefficients over the points, so a step over n points costs O(n^2) in any dimension. All
functions use float64 NumPy on the CPU, which is fastest for such small matrices.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOGETHER = 1 << 17  # distances to sort at a time, which stay in the cache
ROUNDING = 32 * float(np.finfo(np.float64).eps)  # relative error of inner products, which are float64 sums


def medoid(gram: Array, masses: Array) -> int:
    """Index of the point with the least total distance to the others, each weighted by its mass.

    The totals are compared by their increase over the total of a central point, whose ball with half of the mass is
    the smallest. In the totals themselves, distances from far outliers would drown small differences.
    """
    dists = pair_distances(gram)
    middle = int(half_radii(dists, masses).argmin())
    dists += dists[middle].copy()
    differences = recentred(gram, middle)  # of the squared distances, below
    squares = differences.diagonal()[:, None].copy()
    differences *= 2
    np.subtract(squares, differences, out=differences)
    apart = dists > 0
    rises: Array = np.divide(differences, dists, out=differences, where=apart)
    rises[~apart] = 0
    return int((rises @ masses).argmin())


def half_radii(dists: Array, masses: Array) -> Array:
    """For every row of ``dists`` (k, n), distances from points with ``masses`` (n,), the smallest distance within which
    half of the mass lies, (k,)."""
    radii = np.empty(len(dists))
    step, alike = max(1, TOGETHER // dists.shape[1]), (masses == masses[0]).all()
    for rows in (slice(start, start + step) for start in range(0, len(dists), step)):
        if alike:
            below = masses.cumsum()
            place = np.count_nonzero(below < below[-1] / 2)
            radii[rows] = np.partition(dists[rows], place, axis=1)[:, place]
            continue
        order = dists[rows].argsort(axis=1)
        reached = masses[order].cumsum(axis=1)
        half, each = (reached < reached[:, -1:] / 2).sum(axis=1), np.arange(len(order))
        radii[rows] = dists[rows][each, order[each, half]]
    return radii


def pair_distances(gram: Array) -> Array:
    """Distances (n, n) of all pairs of points; 0 where the Gram matrix cannot tell two points apart."""
    squares = gram.diagonal()
    sums = squares[:, None] + squares
    sq_dists: Array = 2 * gram
    np.subtract(sums, sq_dists, out=sq_dists)
    sums *= ROUNDING
    sq_dists[~(sq_dists > sums)] = 0
    return np.sqrt(sq_dists, out=sq_dists)


def recentred(gram: Array, origin: int) -> Array:
    """Gram matrix of the points relative to the point ``origin``, preferably the medoid, which is no outlier.

    Small differences between points then keep their digits. Points that differ from the origin by no more than rounding
    count as equal to it.
    """
    relative: Array = gram - gram[origin]
    relative -= gram[:, [origin]]
    relative += gram[origin, origin]
    same = relative.diagonal() <= ROUNDING * (gram.diagonal() + gram[origin, origin])
    relative[same] = 0
    relative[:, same] = 0
    return relative


def spread(gram: Array, masses: Array) -> float:
    """The distance from the origin within which half of the mass lies, a unit of length that no minority stretches."""
    return float(half_radii(np.sqrt(gram.diagonal().clip(min=0))[None], masses)[0])


def length(gram: Array, coefficients: Array) -> float:
    """Euclidean norm of the combination of the points with these coefficients (n,)."""
    return math.sqrt(max(float(coefficients @ gram @ coefficients), 0.0))


def sq_dists_to(gram: Array, weights: Array) -> Array:
    """Squared distances (n,) of the points to their combination with ``weights`` (n,)."""
    products = gram @ weights
    sq_dists: Array = gram.diagonal() - 2 * products + weights @ products
    return sq_dists.clip(min=0)


def weiszfeld(gram: Array, masses: Array, eps: float, max_iter: int) -> Array:
    """Weights (n,) of the geometric median of points with ``masses`` (n,), by Weiszfeld's iteration; they sum to 1.

    The iteration starts at the medoid, where the distances are exact. In the mean, huge points can cancel and leave
    only rounding errors. It stops when a step is no longer than ``eps`` times the median distance from the medoid, or
    after ``max_iter`` steps.
    """
    gram = recentred(gram, medoid(gram, masses))
    tolerance = eps * spread(gram, masses)
    start = gram.diagonal() == 0
    weights: Array = start / start.sum()
    for _ in range(max_iter):
        previous, weights = weights, _weiszfeld_step(gram, masses, weights, tolerance)
        if length(gram, weights - previous) <= tolerance:
            break
    return weights


def _weiszfeld_step(gram: Array, masses: Array, weights: Array, coincide: float) -> Array:
    """One step from ``weights`` (n,) towards the geometric median of points with ``masses`` (n,); weights sum to 1.

    Every point pulls with its mass along the unit vector towards the point. Points within ``coincide`` of the iterate
    have no direction. They hold the iterate back by their mass instead (Vardi and Zhang, PNAS 2000), so the iteration
    neither divides by zero nor sticks to a point that is not the median.
    """
    dists = np.sqrt(sq_dists_to(gram, weights))
    away = dists > coincide
    if not away.any():
        return weights
    pulls = np.divide(masses, dists, out=np.zeros_like(dists), where=away)
    target: Array = pulls / pulls.sum()
    if away.all():
        return target
    pull, hold = length(gram, target - weights) * pulls.sum(), masses[~away].sum()
    stay = min(1.0, hold / pull) if pull > 0 else 0.0
    blended: Array = (1 - stay) * target + stay * weights
    return blended


@dataclass(frozen=True)
class Subspace:
    """An affine subspace: its ``origin`` (p,) and orthonormal ``axes`` (p, r) as coefficients over p points."""

    origin: Array
    axes: Array

    def coordinates(self, gram: Array) -> Array:
        """Coordinates (p, r) of the points' projections, relative to the origin."""
        products: Array = (gram - self.origin @ gram) @ self.axes
        return products

    def sq_residuals(self, gram: Array) -> Array:
        """Squared distances (p,) of the points to the subspace.

        They are at least the rounding error of the inner products, so that a subspace through wild points never looks
        perfect, even if these points cancel in its origin.
        """
        lengths = np.sqrt(gram.diagonal().clip(min=0))
        rounding = np.finfo(np.float64).eps * (lengths + np.abs(self.origin) @ lengths) ** 2
        along: Array = np.square(self.coordinates(gram)).sum(axis=1)
        residuals: Array = np.maximum(sq_dists_to(gram, self.origin) - along, rounding)
        return residuals


def fit_subspace(gram: Array, members: NDArray[np.intp], dim: int) -> Subspace:
    """The affine subspace of at most ``dim`` dimensions nearest to the ``members`` in squared distance (centred SVD).

    Directions in which the members differ by no more than rounding are left out, as nothing determines them.
    """
    inner = gram[np.ix_(members, members)]
    means = inner.mean(axis=0)
    values, vectors = np.linalg.eigh(inner - means - means[:, None] + means.mean())
    rounding = len(members) * np.finfo(np.float64).eps * inner.diagonal().max()
    top = np.arange(len(members))[::-1][:dim]
    top = top[values[top] > rounding]
    scaled = vectors[:, top] / np.sqrt(values[top])
    origin, axes = np.zeros(len(gram)), np.zeros((len(gram), len(top)))
    origin[members] = 1 / len(members)
    axes[members] = scaled - scaled.mean(axis=0)
    return Subspace(origin, axes)
