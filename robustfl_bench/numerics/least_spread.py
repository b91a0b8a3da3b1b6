"""The points to leave out so that the variance of the others along its largest direction is least.

The search is exhaustive, but computes the eigenvalues of few sets. Let ``Y`` (m, m - 1) be the m points relative to
their mean, along the eigenvectors of their scatter, and ``L`` the diagonal matrix of its eigenvalues. The scatter of
the points left after the removal of a set R is

    S_R = L - Y_R' (1 + 1 1' / (m - |R|)) Y_R,

and it is below t in all directions if and only if the principal submatrix, in rows and columns R, of the matrix

    C = 1 - 1 1' / m + Y (t - L)^-1 Y',

has as many negative eigenvalues as L has entries above t (by the inertia of a matrix that has, up to sign, t - S_R and
C_R as its Schur complements). A set drawn at random from the sets below t halves their number on average, so only about
log2 of that number are tried.
"""

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.numerics.gram_space import Array, pair_distances

Sets = NDArray[np.intp]

EQUAL = 1e-9  # relative; a set whose gain is smaller counts as no better
DOUBTFUL = 1e-9  # relative to the largest matrix entry; a smaller pivot may owe its sign to rounding


def least_spread(gram: Array, f: int) -> Sets:
    """The n - f points (sorted) whose scatter has the smallest largest eigenvalue, from inner products (n, n)."""
    n = len(gram)
    dists = pair_distances(gram)
    closest = int(np.partition(dists, n - f - 1, axis=1)[:, n - f - 1].argmin())
    best = np.sort(dists[closest].argsort(kind="stable")[: n - f])
    least = _largest(gram, best)
    points, tried, rng = np.empty(0, dtype=np.intp), np.empty((0, 0), dtype=np.intp), np.random.default_rng(0)
    while least > 0:
        # A better set has no two points whose scatter alone reaches ``least``. A point that far from more than f others
        # is therefore in no better set.
        near = np.flatnonzero((np.square(dists) / 2 >= least).sum(axis=1) <= f)
        if len(near) < n - f:
            break
        if len(near) != len(points):
            points, tried = near, _subsets(len(near), len(near) - (n - f))
        tried = tried[:, _below(gram[np.ix_(points, points)], tried, least * (1 - EQUAL))]
        if not tried.shape[1]:
            break
        one = int(rng.integers(tried.shape[1]))
        members = np.delete(points, tried[:, one])
        if (value := _largest(gram, members)) < least:
            best, least = members, value
        tried = np.delete(tried, one, axis=1)
    return best


def _largest(gram: Array, members: Sets) -> float:
    """The largest eigenvalue of the scatter of these points."""
    return float(_scatter(gram[np.ix_(members, members)])[0][-1])


def _scatter(gram: Array) -> tuple[Array, Array]:
    """Eigenvalues (m,), rising, and eigenvectors (m, m) of inner products relative to the points' mean."""
    means = gram.mean(axis=0)
    values, vectors = np.linalg.eigh(gram - means - means[:, None] + means.mean())
    return values.clip(min=0), vectors


@lru_cache(maxsize=8)
def _subsets(n: int, size: int) -> Sets:
    """All sets of ``size`` of n indices, one per column."""
    return np.array(list(combinations(range(n), size)), dtype=np.intp).reshape(math.comb(n, size), size).T


def _below(gram: Array, left_out: Sets, threshold: float) -> NDArray[np.bool_]:
    """Whether the scatter without the points ``left_out`` (f, k) is below the threshold in all directions, (k,)."""
    values, vectors = _scatter(gram)
    gaps = threshold - values
    gaps[gaps == 0] = -np.finfo(np.float64).eps * threshold
    matrix = np.eye(len(gram)) - 1 / len(gram) + (vectors * (values / gaps)) @ vectors.T
    above = int((gaps < 0).sum())
    if above > len(left_out):
        return np.zeros(left_out.shape[1], dtype=bool)
    below: NDArray[np.bool_] = _negatives(matrix[left_out[:, None], left_out]) == above
    return below


def _negatives(matrices: Array) -> NDArray[np.intp]:
    """Numbers (k,) of negative eigenvalues of symmetric matrices (f, f, k), counted as their negative pivots."""
    rest, size = matrices.copy(), np.abs(matrices).max(axis=(0, 1), initial=0)
    count, doubtful = np.zeros(matrices.shape[2], dtype=np.intp), np.zeros(matrices.shape[2], dtype=bool)
    with np.errstate(all="ignore"):
        for i, row in enumerate(rest):
            pivot = row[i].copy()
            count += pivot < 0
            doubtful |= ~(np.abs(pivot) > DOUBTFUL * size)
            rest[i + 1 :, i + 1 :] -= row[i + 1 :, None] * (row[i + 1 :] / pivot)
    for k in np.flatnonzero(doubtful):
        count[k] = (np.linalg.eigvalsh(matrices[:, :, k]) < 0).sum()
    return count
