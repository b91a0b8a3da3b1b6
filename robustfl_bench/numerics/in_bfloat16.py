"""Matrices of bfloat16 numbers, for updates that arrive rounded: tensors (n, d) of float32 like others, to the same
bytes, in half the memory.

Blocks of columns and single rows, by which rules read the updates, become float32 one at a time. All else computes with
a float32 copy of what it reads.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor
from torch.utils._pytree import tree_map

ROWS = 1 << 22  # numbers in the rows that are summed at once


def empty(n: int, d: int, device: torch.device | None = None) -> Tensor:
    """An uninitialised matrix (n, d)."""
    return Bfloat16Matrix(torch.empty(n, d, dtype=torch.bfloat16, device=device))


class Bfloat16Matrix(Tensor):
    """A float32 matrix (n, d) whose numbers are ``stored`` in bfloat16, or some rows or columns of it.

    Slices of rows, and rows in turn, are views. Everything else that is read from it is a plain copy in float32. It is
    written by rows, ``matrix[rows] = values``, which rounds; other operations that write raise TypeError.
    """

    stored: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, stored: Tensor) -> "Bfloat16Matrix":
        made: Bfloat16Matrix = Tensor._make_wrapper_subclass(
            cls, stored.shape, dtype=torch.float32, device=stored.device
        )
        made.stored = stored
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # it is called with or without arguments
        cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = dict(zip((argument.name for argument in operation._schema.arguments), args, strict=False))
        given |= kwargs or {}
        for argument in operation._schema.arguments:
            writes = argument.alias_info is not None and argument.alias_info.is_write
            if writes and isinstance(given.get(argument.name), Bfloat16Matrix):
                raise TypeError(f"{operation} cannot write updates that are stored in bfloat16; matrix[rows] = ... can")
        return operation(*tree_map(_plain, args), **tree_map(_plain, kwargs or {}))

    def __getitem__(self, index: Any) -> Tensor:
        part = self.stored[index]
        return Bfloat16Matrix(part) if isinstance(index, slice) else part.float()

    def __setitem__(self, index: Any, values: Any) -> None:
        self.stored[index] = values

    def __iter__(self) -> Iterator[Tensor]:
        return map(Bfloat16Matrix, self.stored)

    def index_select(self, *args: Any) -> Tensor:
        """As usual; nothing else becomes float32."""
        return self.stored.index_select(*args).float()

    def bfloat16(self, **_: Any) -> Tensor:
        """The stored numbers themselves."""
        return self.stored

    def copy_(self, values: Tensor, *_: Any) -> Tensor:
        """As usual; the values are rounded."""
        self.stored.copy_(values)
        return self

    def split(self, size: Any, dim: int = 0) -> Any:
        """Parts that become float32 when they are read."""
        return tuple(map(Bfloat16Matrix, self.stored.split(size, dim)))

    def sum(self, *args: Any, **kwargs: Any) -> Tensor:
        """As usual; the sums of rows take the memory of few rows at a time."""
        if kwargs == {"dim": 1} and not args and self.dim() == 2:
            parts = self.stored.split(max(1, ROWS // max(1, self.shape[1])))
            return torch.cat([part.float().sum(dim=1) for part in parts])
        return self.stored.float().sum(*args, **kwargs)

    def detach(self) -> Tensor:
        """The matrix itself."""
        return self

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        """The matrix on the CPU."""
        return self if self.device.type == "cpu" else Bfloat16Matrix(self.stored.cpu())

    def numpy(self, **_: Any) -> Any:
        """The matrix as an array that is read in blocks as well; a row in float32."""
        return _Bfloat16Array(self.stored) if self.dim() == 2 else self.stored.float().numpy()

    def __array__(self, dtype: Any = None) -> Any:
        return self.stored.float().numpy().astype(dtype or np.float32, copy=False)

    def new_empty(self, *size: Any, **kwargs: Any) -> Tensor:
        """As usual; nothing of the matrix is read."""
        return self.stored[:0].float().new_empty(*size, **kwargs)

    def new_zeros(self, *size: Any, **kwargs: Any) -> Tensor:
        """As usual."""
        return self.stored[:0].float().new_zeros(*size, **kwargs)

    def new_ones(self, *size: Any, **kwargs: Any) -> Tensor:
        """As usual."""
        return self.stored[:0].float().new_ones(*size, **kwargs)


class _Bfloat16Array(NDArrayOperatorsMixin):
    """The matrix as NumPy sees it."""

    def __init__(self, stored: Tensor) -> None:
        self._stored, self.shape = stored, tuple(stored.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self._stored[index].float().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._stored.float().numpy().astype(dtype or np.float32, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(
            *(np.asarray(i) if isinstance(i, _Bfloat16Array) else i for i in inputs), **kwargs
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__array__(), name)


def _plain(value: Any) -> Any:
    return value.stored.float() if isinstance(value, Bfloat16Matrix) else value
