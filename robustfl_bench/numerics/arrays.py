"""Conversion of a caller's NumPy arrays and torch tensors to the float32 tensors of rules, and back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.updates import all_finite


def read(matrix: Any) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """A matrix (n, d) as a float32 tensor, and the function that turns results into the matrix's kind and dtype.

    The caller's array is not changed. Raises ConfigError unless its numbers are finite and floating-point.
    """
    if isinstance(matrix, Tensor):
        rows, known = matrix.detach(), matrix.dtype.is_floating_point
    elif isinstance(matrix, np.ndarray):
        known = matrix.dtype in (np.float16, np.float32, np.float64)
        with np.errstate(over="ignore"):
            rows = torch.from_numpy(matrix.astype(np.float32, order="C")) if known else torch.empty(0)
    else:
        raise ConfigError(f"updates must be a NumPy array or a torch tensor (n, d), got a {type(matrix).__name__}")
    if not known or matrix.ndim != 2 or 0 in matrix.shape:
        raise ConfigError(
            f"updates must be floating-point numbers (n, d), got {matrix.dtype} of shape {tuple(matrix.shape)}"
        )
    rows = rows.to(torch.float32).contiguous()
    if not all_finite(rows):
        wrong = ", ".join(map(str, (~rows.isfinite().all(dim=1)).nonzero().flatten().tolist()))
        raise ConfigError(f"updates must be finite in float32, those of clients {wrong} are not; a run takes them as 0")

    def written(result: Tensor) -> Any:
        if isinstance(matrix, Tensor):
            return result.to(matrix.dtype)
        return result.numpy().astype(matrix.dtype)

    return rows, written


def vector(name: str, values: Any, length: int, like: Tensor) -> Tensor:
    """An argument of a caller as a tensor (length,) with the dtype and device of ``like``; raises ConfigError for
    another shape."""
    numbers = torch.as_tensor(values, dtype=like.dtype, device=like.device)
    if numbers.shape != (length,):
        raise ConfigError(f"{name} must have shape ({length},), got {tuple(numbers.shape)}")
    return numbers
