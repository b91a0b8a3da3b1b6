"""Principal components of the updates of a round (BOBA, Bao et al., AISTATS 2024, Figs. 1, 2 and 13)."""

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.numerics.updates import Updates


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
