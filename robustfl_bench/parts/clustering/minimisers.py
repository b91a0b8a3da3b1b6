"""Empirical risk minimisers of single clients, in closed form: stage 1 of the Three-Stage algorithm."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.network.least_squares import is_linear_regression
from robustfl_bench.parts.models.mean import Constant

ERMS = {"lstsq": "float64, least norm", "float32_det": "authors' code"}


def local_minimisers(module: nn.Module, clients: Sequence[tuple[Tensor, Tensor]], erm: str) -> np.ndarray:
    """The parameters (clients, d), float64, of least squared error on each client's samples (x, y).

    ``erm`` is the method for linear regression. ``lstsq`` is least squares in float64, with the solution of least norm
    if the samples do not determine the parameters; ``float32_det`` is the authors' code. Raises ConfigError for
    networks other than linear regression and the mean.
    """
    if isinstance(module, Constant):
        return np.stack([y.double().mean(dim=0).cpu().numpy() for _, y in clients])
    if not is_linear_regression(module):
        raise ConfigError("clustering three_stage needs model=linear_regression or model=mean: it solves them exactly")
    solve = _least_norm if erm == "lstsq" else _by_float32_determinant
    return np.stack([solve(x.cpu(), y.cpu()) for x, y in clients])


def _least_norm(x: Tensor, y: Tensor) -> np.ndarray:
    solution: np.ndarray = np.linalg.lstsq(x.double().numpy(), y.double().numpy(), rcond=None)[0]
    return solution


def _by_float32_determinant(x: Tensor, y: Tensor) -> np.ndarray:
    """``inv(X^T X) X^T y`` in float32 where the float32 determinant is positive, else ``pinv(X^T X) X^T y``, by lstsq.

    With more inputs than samples the determinant is 0, but the LU decomposition returns rounding errors, large enough
    to overflow to plus or minus infinity: about every second client then inverts a singular matrix.
    """
    gram = x.T @ x
    if torch.linalg.det(gram) > 0:
        inverted: np.ndarray = (torch.linalg.inv(gram) @ (x.T @ y)).double().numpy()
        return inverted
    return _least_norm(x, y)  # equals the pseudo-inverse solution, without decomposing a d x d matrix
