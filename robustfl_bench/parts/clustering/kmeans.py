"""Trimmed k-means: stage 2 of the Three-Stage algorithm (Ghosh, Hong, Yin, Ramchandran, arXiv 1906.06629).

Centres are updated as in BRIFCA's code (Tao et al. 2023): the mean of a cluster without its farthest points.
"""

import numpy as np

from robustfl_bench.numerics.gram_space import weiszfeld

CANDIDATES = 5  # points tried for every new centre
MEDIAN_STEPS, MEDIAN_EPS = 100, 1e-6


def sq_dists(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances (n, k) of points (n, d) from centres (k, d)."""
    squares = np.square(points).sum(axis=1)[:, None] + np.square(centres).sum(axis=1)
    dists: np.ndarray = (squares - 2 * points @ centres.T).clip(min=0)
    return dists


def trimmed_cost(dists: np.ndarray, keep: float) -> float:
    """Sum of the smallest share ``keep`` of ``dists`` (n,), the squared distances from the nearest centre."""
    kept = max(1, round(keep * len(dists)))
    return float(np.partition(dists, kept - 1)[:kept].sum())


def seeds(points: np.ndarray, count: int, keep: float, rng: np.random.Generator) -> np.ndarray:
    """Initial centres (k, d), drawn from the points as in k-means++, but not from the farthest share ``1 - keep``.

    The first centre is drawn uniformly from all points. Plain k-means++ prefers outliers, and Byzantine clients are
    outliers. Of several candidates for each further centre, the one with the least trimmed cost is taken.
    """
    chosen = [int(rng.integers(len(points)))]
    nearest = sq_dists(points, points[chosen])[:, 0]
    while len(chosen) < count:
        weights = np.where(nearest <= np.quantile(nearest, keep), nearest, 0)
        total = weights.sum()
        chances = weights / total if total > 0 else None  # all points coincide with centres
        candidates = rng.choice(len(points), size=CANDIDATES, p=chances)
        dists = np.minimum(nearest[:, None], sq_dists(points, points[candidates]))
        best = int(np.argmin([trimmed_cost(column, keep) for column in dists.T]))
        chosen.append(int(candidates[best]))
        nearest = dists[:, best]
    return points[chosen]


def trimmed_mean(points: np.ndarray, keep: float) -> np.ndarray:
    """Mean (d,) of those points (n, d) whose distance from the geometric median is below the ``keep`` quantile; of all
    points if ``keep`` is 1."""
    weights = weiszfeld(points @ points.T, np.ones(len(points)), MEDIAN_EPS, MEDIAN_STEPS)
    dists = np.linalg.norm(points - weights @ points, axis=1)
    inside = dists < (np.quantile(dists, keep) if keep < 1 else np.inf)
    mean: np.ndarray = (points[inside] if inside.any() else points).mean(axis=0)
    return mean


def trimmed_kmeans(
    points: np.ndarray, centres: np.ndarray, keep: float = 0.95, max_iter: int = 100, tol: float = 1e-4
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n,) and centres (k, d) after at most ``max_iter`` iterations from the given ``centres``.

    Stops when the mean squared move of a centre is below ``tol``. A cluster without points keeps its centre.
    """
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(max_iter):
        labels = sq_dists(points, centres).argmin(axis=1)
        moved = centres.copy()
        for cluster in np.unique(labels):
            moved[cluster] = trimmed_mean(points[labels == cluster], keep)
        previous, centres = centres, moved
        if np.square(centres - previous).sum() / len(centres) < tol:
            break
    return labels, centres
