"""As ``gram_space``, for the Gram matrices (k, n, n) of several sets of n points at once.

For few points, NumPy's calls take longer than their arithmetic: one call for k sets is much faster than k calls.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.numerics.gram_space import ROUNDING, Array, half_radii


def weiszfeld(grams: Array, masses: Array, eps: float, max_iter: int) -> Array:
    """Weights (k, n) of the geometric medians of points with ``masses`` (n,), each as by ``gram_space.weiszfeld``."""
    grams = _recentred(grams, _medoids(grams, masses))
    squares = _diagonals(grams).copy()
    start = squares == 0
    found: Array = start / start.sum(axis=1, keepdims=True)
    tolerances = eps * half_radii(np.sqrt(squares.clip(min=0)), masses)
    moving, weights = np.arange(len(grams)), found.copy()
    for _ in range(max_iter):
        previous, weights = weights, _weiszfeld_step(grams, squares, masses, weights, tolerances)
        moved = weights - previous
        far = np.vecdot(moved, _times(grams, moved)) > tolerances**2
        if not far.all():
            found[moving[~far]] = weights[~far]
            moving, weights, tolerances = moving[far], weights[far], tolerances[far]
            grams, squares = grams[far], squares[far]
            if not len(moving):
                break
    found[moving] = weights
    return found


def _weiszfeld_step(grams: Array, squares: Array, masses: Array, weights: Array, coincide: Array) -> Array:
    """One step for each set; ``squares`` (k, n) are the diagonals of the Gram matrices."""
    dists = np.sqrt(_sq_dists_to(grams, squares, weights))
    if dists.min() > coincide.max():  # no point is reached
        pulls = masses / dists
        pulls /= pulls.sum(axis=1, keepdims=True)
        return pulls
    away = dists > coincide[:, None]
    pulls = np.divide(masses, dists, out=np.zeros_like(dists), where=away)
    totals = pulls.sum(axis=1, keepdims=True)
    targets: Array = np.divide(pulls, totals, out=weights.copy(), where=totals > 0)
    near = np.flatnonzero(~away.all(axis=1))
    pull = _lengths(grams[near], targets[near] - weights[near]) * totals[near, 0]
    hold = (~away[near]) @ masses
    stay = np.divide(hold, pull, out=np.zeros_like(pull), where=pull > 0).clip(max=1)[:, None]
    targets[near] = (1 - stay) * targets[near] + stay * weights[near]
    return targets


def _sq_dists_to(grams: Array, squares: Array, weights: Array) -> Array:
    """Squared distances (k, n) of the points, of squared lengths ``squares``, to their combinations."""
    products = _times(grams, weights)
    sq_dists: Array = squares - 2 * products
    sq_dists += np.vecdot(weights, products)[:, None]
    return np.maximum(sq_dists, 0, out=sq_dists)


def _medoids(grams: Array, masses: Array) -> NDArray[np.intp]:
    """The index (k,) of each set's point of least total distance, as ``gram_space.medoid``."""
    k, n, _ = grams.shape
    sums = _diagonals(grams)[:, :, None] + _diagonals(grams)[:, None]
    sq_dists = sums - 2 * grams
    dists = np.sqrt(np.where(sq_dists > ROUNDING * sums, sq_dists, 0))
    middles = half_radii(dists.reshape(k * n, n), masses).reshape(k, n).argmin(axis=1)
    relative = _recentred(grams, middles)
    differences = _diagonals(relative)[:, :, None] - 2 * relative  # of the squared distances
    sums = dists + dists[np.arange(k), middles][:, None]
    rises = np.divide(differences, sums, out=np.zeros_like(sums), where=sums > 0)
    least: NDArray[np.intp] = (rises @ masses).argmin(axis=1)
    return least


def _recentred(grams: Array, origins: NDArray[np.intp]) -> Array:
    """Gram matrices of the points relative to the points ``origins`` (k,), as ``gram_space.recentred``."""
    rows = grams[np.arange(len(grams)), origins]
    squares = np.take_along_axis(rows, origins[:, None], axis=1)
    relative: Array = grams - rows[:, None] - rows[:, :, None] + squares[:, :, None]
    same = _diagonals(relative) <= ROUNDING * (_diagonals(grams) + squares)
    relative[same[:, :, None] | same[:, None]] = 0
    return relative


def _lengths(grams: Array, coefficients: Array) -> Array:
    """Euclidean norms (k,) of the combinations of the points with these coefficients (k, n)."""
    squares: Array = np.vecdot(coefficients, _times(grams, coefficients))
    return np.sqrt(np.maximum(squares, 0))


def _times(grams: Array, coefficients: Array) -> Array:
    products: Array = (grams @ coefficients[:, :, None])[:, :, 0]
    return products


def _diagonals(grams: Array) -> Array:
    diagonals: Array = grams.diagonal(axis1=1, axis2=2)
    return diagonals


@dataclass(frozen=True)
class Subspaces:
    """Affine subspaces: their ``origins`` (k, p) and orthonormal ``axes`` (k, p, r) as coefficients over p points. Axes
    beyond a subspace's dimensions are zero."""

    origins: Array
    axes: Array

    def coordinates(self, grams: Array) -> Array:
        """Coordinates (k, p, r) of the points' projections, relative to the origins."""
        products: Array = (grams - self.origins[:, None] @ grams) @ self.axes
        return products

    def sq_residuals(self, grams: Array) -> Array:
        """Squared distances (k, p) of the points to the subspaces, at least their rounding error."""
        lengths = np.sqrt(_diagonals(grams).clip(min=0))
        reach = (np.abs(self.origins) * lengths).sum(axis=1, keepdims=True)
        rounding = np.finfo(np.float64).eps * (lengths + reach) ** 2
        along = np.square(self.coordinates(grams)).sum(axis=2)
        residuals: Array = np.maximum(_sq_dists_to(grams, _diagonals(grams), self.origins) - along, rounding)
        return residuals


def fit_subspaces(grams: Array, members: NDArray[np.intp], dim: int) -> Subspaces:
    """The affine subspaces of at most ``dim`` dimensions nearest to each set's ``members`` (k, m), as
    ``gram_space.fit_subspace``."""
    (k, p, _), m = grams.shape, members.shape[1]
    sets = np.arange(k)[:, None]
    inner = grams[sets[:, :, None], members[:, :, None], members[:, None]]
    means = inner.mean(axis=1)
    overall = means.mean(axis=1)
    values, vectors = np.linalg.eigh(inner - means[:, None] - means[:, :, None] + overall[:, None, None])
    rounding = m * np.finfo(np.float64).eps * _diagonals(inner).max(axis=1, keepdims=True)
    values, vectors = values[:, ::-1][:, :dim], vectors[:, :, ::-1][:, :, :dim]
    used = values > rounding
    scales = np.divide(1, np.sqrt(values.clip(min=0)), out=np.zeros_like(values), where=used)
    scaled = vectors * scales[:, None]
    origins, axes = np.zeros((k, p)), np.zeros((k, p, dim))
    origins[sets, members] = 1 / m
    axes[sets, members, : scaled.shape[2]] = scaled - scaled.mean(axis=1, keepdims=True)
    return Subspaces(origins, axes)
