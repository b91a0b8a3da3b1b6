"""The geometric median against a slow solver and against its own proof, on instances that break simpler iterations."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from robustfl_bench.numerics.medians import geometric_median, radius

EPS = 1e-5
Points = Any


def instance(seed: int) -> tuple[Points, Points]:
    """Points (n, d) and masses (n,), of one of eight kinds."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 16)), int(rng.integers(1, 6))
    points, masses = rng.normal(size=(n, d)), rng.uniform(0.05, 1, size=n)
    match seed % 8:
        case 1:  # on a line
            points = np.outer(rng.normal(size=n), rng.normal(size=d)) + rng.normal(size=d)
        case 2:  # on one of few places
            points = points[rng.integers(min(3, n), size=n)]
        case 3:  # two fifths of the mass far away, each in its own direction
            points, masses = with_outliers(points, masses, 1e6 * rng.normal(size=points.shape), 0.4)
        case 4:  # far away together
            points, masses = with_outliers(points, masses, np.full_like(points, 1e6 / math.sqrt(d)), 0.4)
        case 5:  # close to each other, far from the origin
            points = 1e-3 * points + 100
        case 6:  # one point holds the median, or nearly so
            masses[0] = masses[1:].sum() * rng.choice([0.9, 0.999, 1.0, 1.1])
        case 7:  # equal masses on a grid: many ties
            points, masses = np.round(points), np.ones(n)
    return points, masses


def with_outliers(points: Points, masses: Points, far: Points, share: float) -> tuple[Points, Points]:
    """The points, half of them replaced by far ones that have this share of the mass."""
    half = len(points) // 2
    points, masses = points.copy(), masses.copy()
    points[:half] = far[:half]
    masses[:half] *= share / max(masses[:half].sum(), 1e-9)
    masses[half:] *= (1 - share) / masses[half:].sum()
    return points, masses


def higher(y: Points, z: Points, points: Points, masses: Points) -> float:
    """f(y) - f(z), also where both are huge: from the differences of squared distances."""
    distances = np.linalg.norm(points - y, axis=1) + np.linalg.norm(points - z, axis=1)
    products = (y + z - 2 * points) @ (y - z)
    return float(masses @ np.divide(products, distances, out=np.zeros_like(products), where=distances > 0))


def slow_solution(points: Points, masses: Points) -> Points:
    """The best of all points, of Newton steps in the points' own space, and of a long Weiszfeld iteration."""
    best = points[np.argmin([masses @ np.linalg.norm(points - point, axis=1) for point in points])]
    gap = np.linalg.norm(points - best, axis=1)
    start = best + 1e-3 * np.median(gap[gap > 0] if (gap > 0).any() else [1.0])

    def value(y: Points) -> float:
        return higher(y, best, points, masses)

    def slope(y: Points) -> Points:
        distances = np.maximum(np.linalg.norm(points - y, axis=1), 1e-300)
        return ((masses / distances)[:, None] * (y - points)).sum(axis=0)

    candidates = [*points, minimize(value, start, jac=slope, method="BFGS", options={"gtol": 1e-12}).x]
    y = start.copy()
    for _ in range(1000):
        pulls = masses / np.maximum(np.linalg.norm(points - y, axis=1), 1e-12)
        y = pulls @ points / pulls.sum()
    candidates.append(y)
    return min(candidates, key=value)


@pytest.mark.parametrize("block", range(8))
def test_no_slow_solver_gets_lower(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        points, masses = instance(seed)
        masses = masses / masses.sum()
        weights = geometric_median(points @ points.T, masses, EPS)
        assert weights.sum() == pytest.approx(1) and weights.min() >= 0
        y, best = weights @ points, slow_solution(points, masses)
        assert higher(y, best, points, masses) <= EPS, seed
        # The bound that stops the search holds at places that are not the median too.
        for other in (points.mean(axis=0), y + 0.1, np.median(points, axis=0)):
            distances = np.linalg.norm(points - other, axis=1)
            if distances.min() > 1e-6:
                gradient = ((masses / distances)[:, None] * (other - points)).sum(axis=0)
                bound = np.linalg.norm(gradient) * radius(distances, masses)
                assert higher(other, best, points, masses) <= bound * (1 + 1e-9) + 1e-9, seed
                if higher(best, other, points, masses) <= 0:
                    assert np.linalg.norm(best - other) <= radius(distances, masses) + 1e-3


def test_the_result_is_where_its_proof_says() -> None:
    """At a looser tolerance the objective is farther away, but never farther than the tolerance."""
    points = np.random.default_rng(0).normal(size=(50, 300))
    masses = np.full(50, 1 / 50)
    best = geometric_median(points @ points.T, masses, 0) @ points
    for eps in (1e-1, 1e-3, 1e-6):
        y = geometric_median(points @ points.T, masses, eps) @ points
        assert higher(y, best, points, masses) <= eps
    assert np.abs(geometric_median(points @ points.T, masses, 1e9) - np.eye(50)).sum(axis=1).min() == 0


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.49])
def test_breakdown(distance: float, share: float) -> None:
    """With Byzantine mass b < 1/2 the result stays within 2 (1 - b) / (1 - 2 b) times the largest distance of an honest
    point from the honest points' median (Minsker 2015; Lopuhaa and Rousseeuw 1991)."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        honest = rng.normal(size=(30, 40))
        masses = rng.uniform(0.1, 1, size=50)
        masses[:30] *= (1 - share) / masses[:30].sum()
        masses[30:] *= share / masses[30:].sum()
        directions = rng.normal(size=(1 if seed % 2 else 20, 40))
        far = distance * np.broadcast_to(directions / np.linalg.norm(directions, axis=1, keepdims=True), (20, 40))
        points = np.concatenate([honest, far])
        alone = geometric_median(honest @ honest.T, masses[:30], EPS) @ honest
        together = geometric_median(points @ points.T, masses, EPS) @ points
        spread = np.linalg.norm(honest - alone, axis=1).max()
        assert np.linalg.norm(together - alone) <= 2 * (1 - share) / (1 - 2 * share) * spread
        # ... and to its tolerance: what it left on the table is bounded by the gradient there.
        distances = np.linalg.norm(points - together, axis=1)
        pull = ((masses / distances)[:, None] * (points - together)).sum(axis=0)
        assert np.linalg.norm(pull) * radius(distances, masses) <= 2 * EPS


def test_with_more_than_half_of_the_mass_outliers_win() -> None:
    points = np.concatenate([np.random.default_rng(0).normal(size=(10, 3)), np.full((10, 3), 1e9)])
    masses = np.repeat([0.049, 0.051], 10)
    assert np.linalg.norm(geometric_median(points @ points.T, masses, EPS) @ points) > 1e8


def test_masses_count_like_copies() -> None:
    points = np.random.default_rng(3).normal(size=(6, 4))
    times = np.array([1, 3, 2, 1, 2, 2])
    copies = np.repeat(points, times, axis=0)
    weighted = geometric_median(points @ points.T, times.astype(float), 1e-12) @ points
    repeated = geometric_median(copies @ copies.T, np.ones(11), 1e-12) @ copies
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)
