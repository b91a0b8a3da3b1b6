"""Geometry from inner products alone: what rules need of points of which they hold only the Gram matrix.

A vector is given by its coefficients over the points, so n points cost O(n^2) a step whatever their dimension. All
in float64 NumPy on the CPU, where such small matrices are fastest.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def recentred(gram: Array, origin: int | None = None) -> Array:
    """Gram matrix of the points relative to one of them: by default the medoid, of least total distance to the others.

    Points that differ little from each other then keep their digits, and no outlier can become the origin.
    """
    if origin is None:
        squares = gram.diagonal()
        sq_dists: Array = squares[:, None] + squares - 2 * gram
        origin = int(np.sqrt(sq_dists.clip(min=0)).sum(axis=1).argmin())
    relative: Array = gram - gram[origin] - gram[:, [origin]] + gram[origin, origin]
    return relative


def length(gram: Array, coefficients: Array) -> float:
    """Euclidean norm of the combination of the points with these coefficients (n,)."""
    return math.sqrt(max(float(coefficients @ gram @ coefficients), 0.0))


def sq_dists_to(gram: Array, weights: Array) -> Array:
    """Squared distances (n,) of the points to their combination with ``weights`` (n,)."""
    products = gram @ weights
    sq_dists: Array = gram.diagonal() - 2 * products + weights @ products
    return sq_dists.clip(min=0)


def weiszfeld_step(gram: Array, masses: Array, weights: Array, coincide: float) -> Array:
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

        At least the rounding error of the difference they are, lest a subspace through wild points look perfect.
        """
        sq_dists = sq_dists_to(gram, self.origin)
        along: Array = np.square(self.coordinates(gram)).sum(axis=1)
        return np.maximum(sq_dists - along, np.finfo(np.float64).eps * sq_dists)


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
