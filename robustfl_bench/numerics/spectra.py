"""Directions of a round's updates: principal components, a spectral filter, and products with an estimated Hessian."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.linalg.lapack import dsyevr, dsyevr_lwork
from torch import Tensor

from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.updates import Updates

# Principal components of the updates of a round (BOBA, Bao et al., AISTATS 2024, Figs. 1, 2 and 13).


def principal_variances(updates: Updates) -> np.ndarray:
    """Variances of the updates along their principal components, falling, (n - 1,) float64; needs n > 1.

    The denominator is n - 1. The variances sum to the total variance. They are computed from the Gram matrix.
    """
    return _decomposed(updates)[0]


def principal_axes(updates: Updates, count: int) -> Tensor:
    """The first ``count`` principal components as unit vectors, (count, d); those without variance are zero."""
    variances, coefficients = _decomposed(updates)
    lengths = np.sqrt(variances[:count] * (updates.n - 1))
    spanning = lengths > 1e-7 * max(lengths[0], 1e-300)
    weights = np.divide(coefficients[:, :count], lengths, out=np.zeros((updates.n, count)), where=spanning)
    weights -= weights.mean(axis=0)  # components are directions from the mean
    return torch.from_numpy(weights.T).to(updates.columns) @ updates.columns


def _decomposed(updates: Updates) -> tuple[np.ndarray, np.ndarray]:
    """Variances (n - 1,) and eigenvectors (n, n - 1) of the centred Gram matrix."""
    gram = updates.gram.cpu().numpy()
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    order = slice(None, 0, -1)  # falling, without the eigenvalue that centring makes zero
    return values[order].clip(min=0) / (updates.n - 1), vectors[:, order]


EPS = float(np.finfo(np.float64).eps)
LEAST_TRUST = 1e-9  # any less is rounding error of zero trust, which a huge update would amplify


@dataclass(frozen=True)
class Outliers:
    """The ``active`` clients (m,), those with trust left, and their ``weights`` (m,), which sum to 1.

    ``variance`` is the largest eigenvalue of the weighted covariance. ``along`` (m,) is the distance of each active
    client from the weighted mean along the eigenvector, or None if the variance is no more than rounding error.
    """

    active: np.ndarray
    weights: np.ndarray
    variance: float
    along: np.ndarray | None


def outliers(gram: np.ndarray, trust: np.ndarray) -> Outliers:
    """Deviations of the clients, from their Gram matrix (n, n) and their trust (n,), which must not be all zero."""
    active = np.flatnonzero(trust)
    weights = trust[active] / trust.sum()
    inner = gram.copy() if len(active) == len(gram) else gram[np.ix_(active, active)]
    means = inner @ weights
    centred = inner - means - means[:, None] + weights @ means
    roots = np.sqrt(weights)
    variance, vector = top_eigenpair(roots[:, None] * centred * roots)
    rounding = len(active) * EPS * (weights @ inner.diagonal())
    along = None if variance <= rounding else np.abs(centred @ (roots * vector))
    return Outliers(active, weights, variance, along)


def top_eigenpair(matrix: Array) -> tuple[float, Array]:
    """The largest eigenvalue of a symmetric matrix (n, n), and its eigenvector (n,) of length 1.

    The bytes are those of ``scipy.linalg.eigh``, whose checks take longer than LAPACK for few clients.
    """
    n = len(np.asarray_chkfinite(matrix))
    work, integers = _workspace(n)
    values, vectors, _, _, info = dsyevr(matrix, range="I", il=n, iu=n, lower=1, lwork=work, liwork=integers)
    if info:
        raise np.linalg.LinAlgError(f"no eigenvalue was found (LAPACK dsyevr: {info})")
    return values[0], vectors[:, 0]


@lru_cache
def _workspace(n: int) -> tuple[int, int]:
    """The numbers and integers with which LAPACK finds eigenvalues of a matrix (n, n) fastest."""
    numbers, integers, _ = dsyevr_lwork(n, lower=1)
    return int(numbers), int(integers)


def cosines(gram: Array) -> Array:
    """Cosines (n, n) of the angles between vectors with these inner products; 0 for a zero vector."""
    lengths = np.sqrt(gram.diagonal().clip(min=0))
    lengths[lengths == 0] = np.inf
    found: Array = (gram / lengths / lengths[:, None]).clip(-1, 1)
    return found


def hessian_product(vectors: Updates) -> Tensor:
    """The product (d,) of L-BFGS's estimate of the Hessian with the last of the ``vectors`` (2k + 1, d).

    The first k are the steps of a model, oldest first, the next k the changes of its gradient along these steps. The
    estimate is what k BFGS updates make of ``sigma I``, where sigma is the curvature along the last step (Byrd,
    Nocedal, Schnabel, Mathematical Programming 1994, Theorem 2.3). It needs only inner products of the vectors. The
    product is zero if the last step is, or if the estimate is not finite.
    """
    gram, k = vectors.gram.cpu().numpy(), vectors.n // 2
    steps, changes, vector = slice(0, k), slice(k, 2 * k), 2 * k
    nothing = torch.zeros_like(vectors.columns[0])
    with np.errstate(all="ignore"):
        sigma = gram[2 * k - 1, k - 1] / gram[k - 1, k - 1]
    if not np.isfinite(sigma):
        return nothing
    crossed = gram[steps, changes]
    below = np.tril(crossed, -1)
    middle = np.block([[sigma * gram[steps, steps], below], [below.T, -np.diag(crossed.diagonal())]])
    sides = np.concatenate([sigma * gram[steps, vector], gram[changes, vector]])
    solved = np.linalg.lstsq(middle, sides)[0]
    factors = np.concatenate([-sigma * solved[steps], -solved[changes], [sigma]])
    most = torch.finfo(nothing.dtype).max
    return (
        vectors.combine(torch.from_numpy(factors)).vector.clamp(-most, most) if np.isfinite(factors).all() else nothing
    )
