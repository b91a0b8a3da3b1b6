"""One pass of a spectral filter: who deviates along the direction of most variance, in the space of the Gram matrix."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

LEAST_TRUST = 1e-9  # less is the rounding error of no trust at all, which a huge update multiplies


@dataclass(frozen=True)
class Outliers:
    """The ``active`` clients (m,), which have some trust left, and their ``weights`` (m,), which sum to 1.

    ``variance`` is the largest eigenvalue of the weighted covariance, ``along`` (m,) how far each of them is from the
    weighted mean along its eigenvector; None where that variance is no more than rounding.
    """

    active: np.ndarray
    weights: np.ndarray
    variance: float
    along: np.ndarray | None


def outliers(gram: np.ndarray, trust: np.ndarray) -> Outliers:
    """How the clients deviate, from their Gram matrix (n, n) and their trust (n,), of which some must be left."""
    active = np.flatnonzero(trust)
    weights = trust[active] / trust.sum()
    inner = gram[np.ix_(active, active)]
    means = inner @ weights
    centred = inner - means - means[:, None] + weights @ means
    roots = np.sqrt(weights)
    top = len(active) - 1
    values, vectors = eigh(roots[:, None] * centred * roots, subset_by_index=[top, top])
    rounding = len(active) * np.finfo(np.float64).eps * (weights @ inner.diagonal())
    along = None if values[0] <= rounding else np.abs(centred @ (roots * vectors[:, 0]))
    return Outliers(active, weights, values[0], along)
