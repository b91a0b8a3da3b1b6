"""One pass of a spectral filter: deviations along the direction of largest variance, from the Gram matrix."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

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
    inner = gram[np.ix_(active, active)]
    means = inner @ weights
    centred = inner - means - means[:, None] + weights @ means
    roots = np.sqrt(weights)
    top = len(active) - 1
    values, vectors = eigh(roots[:, None] * centred * roots, subset_by_index=[top, top])
    rounding = len(active) * np.finfo(np.float64).eps * (weights @ inner.diagonal())
    along = None if values[0] <= rounding else np.abs(centred @ (roots * vectors[:, 0]))
    return Outliers(active, weights, values[0], along)
