"""Geometry from inner products alone: what rules need of points of which they hold only the Gram matrix.

A vector is given by its coefficients over the points, so n points cost O(n^2) a step whatever their dimension. All
in float64 NumPy on the CPU, where such small matrices are fastest.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 32 * float(np.finfo(np.float64).eps)  # relative: inner products, sums in float64, are not known better


def medoid(gram: Array, masses: Array) -> int:
    """The point of least total distance to the others, each counting with its mass.

    Totals are compared by how far they rise from that of a point in the middle of half of the mass: in the totals
    themselves all that is near drowns in the distances from far outliers.
    """
    dists = pair_distances(gram)
    middle = int(half_radii(dists, masses).argmin())
    relative = recentred(gram, middle)
    differences = relative.diagonal()[:, None] - 2 * relative  # of the squared distances
    sums = dists + dists[middle]
    rises: Array = np.divide(differences, sums, out=np.zeros_like(sums), where=sums > 0)
    return int((rises @ masses).argmin())


def half_radii(dists: Array, masses: Array) -> Array:
    """For every row of ``dists`` (k, n), distances from points with ``masses`` (n,), the least that holds half of the
    mass: (k,)."""
    order = dists.argsort(axis=1)
    reached = masses[order].cumsum(axis=1)
    half = (reached < reached[:, -1:] / 2).sum(axis=1, keepdims=True)
    radii: Array = np.take_along_axis(dists, np.take_along_axis(order, half, axis=1), axis=1)[:, 0]
    return radii


def pair_distances(gram: Array) -> Array:
    """Distances (n, n) of all pairs of points; 0 where the Gram matrix cannot tell two points apart."""
    squares = gram.diagonal()
    sums = squares[:, None] + squares
    sq_dists = sums - 2 * gram
    dists: Array = np.sqrt(np.where(sq_dists > ROUNDING * sums, sq_dists, 0))
    return dists


def recentred(gram: Array, origin: int) -> Array:
    """Gram matrix of the points relative to one of them, best the medoid, which is no outlier.

    Points that differ little from each other then keep their digits. Those that cannot be told from the origin are it.
    """
    relative: Array = gram - gram[origin] - gram[:, [origin]] + gram[origin, origin]
    same = relative.diagonal() <= ROUNDING * (gram.diagonal() + gram[origin, origin])
    relative[same] = 0
    relative[:, same] = 0
    return relative


def spread(gram: Array, masses: Array) -> float:
    """The distance from the origin within which half of the mass lies: a unit of length that no minority stretches."""
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

    It starts at the medoid, where the distances are exact: huge points can cancel in the mean and leave nothing but
    rounding errors. It stops when a step moves no more than ``eps``, a share of the median distance from the medoid, or
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

    Every point pulls with its mass along the unit vector towards it. Points within ``coincide`` of the iterate have
    no direction; they hold it back by their mass instead (Vardi and Zhang, PNAS 2000), so the
    iteration neither divides by zero nor sticks to a point that is not the median.
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

        At least the rounding error of the inner products they come from, lest a subspace through wild points, even
        some that cancel in its origin, look perfect.
        """
        lengths = np.sqrt(gram.diagonal().clip(min=0))
        rounding = np.finfo(np.float64).eps * (lengths + np.abs(self.origin) @ lengths) ** 2
        along: Array = np.square(self.coordinates(gram)).sum(axis=1)
        residuals: Array = np.maximum(sq_dists_to(gram, self.origin) - along, rounding)
        return residuals


def fit_subspace(gram: Array, members: NDArray[np.intp], dim: int) -> Subspace:
    """The affine subspace of at most ``dim`` dimensions nearest to the ``members`` in squared distance (centred SVD).

    Directions in which the members do not differ, up to rounding, are left out: nothing determines them.
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
