"""The weighted geometric median from inner products alone, to a proven distance from the optimum.

The objective is f(y) = sum of m_i |x_i - y| over points with masses that sum to 1. Minus its gradient is the resultant
of the points' pulls on y: unit vectors towards them, each times its mass.
"""

import numpy as np

from robustfl_bench.numerics.gram_space import Array, length, medoid, recentred, sq_dists_to

STEPS = 1000  # never needed: Newton's steps end after about three
ROUNDING = 3e-8  # the resultant of unit pulls, a root of a sum of float64 products, is not known better


def geometric_median(gram: Array, masses: Array, eps: float) -> Array:
    """Weights (n,) of a combination of the points whose f is within ``eps`` of the least; they sum to 1.

    Only where float64 cannot tell that f falls any further may the distance be larger than ``eps``.

    The search starts at the best of the points. If that is not the optimum no point is, and as f falls with every step
    the search never meets a point again: nothing divides by zero. A step is Newton's, or Weiszfeld's where that is
    better.
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
            # Weiszfeld's step from here: f does not rise, and no weight is negative.
            return pulls / pulls.sum() if pulls.any() else weights
        steps = [_newton(gram, masses, distances, weights), pulls / pulls.sum()]
        changes = [_change(gram, masses, weights, step, distances) for step in steps]
        if min(changes) >= 0:
            break
        weights = steps[int(np.argmin(changes))]
    return weights


def radius(dists: Array, masses: Array) -> float:
    """How far the geometric median can be from a place with f no lower, at ``dists`` (n,) from points of ``masses``.

    For every set S of points with mass W > 1/2, f rises on the way from y to any z by at least
    (2 W - 1) |y - z| - 2 sum_S m_i |x_i - y|; so the median is no farther than 2 sum_S m_i |x_i - y| / (2 W - 1). The
    nearest points make the best S: outliers, however far, do not loosen the bound. Times the length of the gradient
    at y it bounds f(y) less the least f, as f is convex.
    """
    order = np.argsort(dists)
    mass, moment = np.cumsum(masses[order]), np.cumsum((masses * dists)[order])
    majority = 2 * mass - mass[-1] > 1e-9
    return float((2 * moment[majority] / (2 * mass[majority] - mass[-1])).min())


def _pulls(masses: Array, dists: Array) -> Array:
    """Every mass, or row of them, divided by its point's distance; nothing pulls towards where it is."""
    return np.divide(masses, dists, out=np.zeros_like(masses), where=dists > 0)


def _resultant(gram: Array, pulls: Array, weights: Array) -> float:
    return length(gram, pulls - pulls.sum() * weights)


def _change(gram: Array, masses: Array, old: Array, new: Array, dists: Array) -> float:
    """By how much f grows from the combination ``old``, at ``dists`` from the points, to ``new``.

    As the difference of two values of f it would drown in the distances from far outliers.
    """
    moved = gram @ (new - old)
    differences = moved @ (new + old) - 2 * moved  # of the squared distances
    sums = np.sqrt(sq_dists_to(gram, new)) + dists
    return float(masses @ np.divide(differences, sums, out=np.zeros_like(sums), where=sums > 0))


def _newton(gram: Array, masses: Array, dists: Array, weights: Array) -> Array:
    """Newton's step: with z_i = x_i - y the Hessian is s I - sum of (m_i / d_i^3) z_i z_i', s = sum of m_i / d_i, so
    that the step is a combination of the z_i, whose coefficients solve n equations.

    The unknowns are the coefficients times d_i: the system then holds cosines, and points at all distances fit in it.
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
