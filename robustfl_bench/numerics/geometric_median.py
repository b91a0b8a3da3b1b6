"""The weighted geometric median from inner products alone, with a proven bound on the error of its objective.

The objective is f(y) = sum of m_i |x_i - y| over points with masses that sum to 1. The negative gradient
is the resultant of the points' pulls on y. The pull of a point is the unit vector towards the point times its mass.
"""

import numpy as np

from robustfl_bench.numerics.gram_space import Array, length, medoid, recentred, sq_dists_to

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
