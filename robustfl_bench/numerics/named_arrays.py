"""Models as named arrays, the form in which other frameworks send them, and as vectors."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, np.ndarray]
Vector = NDArray[np.float64]


class NamedArrays:
    """The names, shapes and types of a ``model``; its vector (d,) has all its floating-point numbers, in its order.

    ``sizes`` are the numbers of floating-point numbers in its arrays, without those of other types.
    """

    def __init__(self, model: Arrays) -> None:
        self._model = dict(model)
        self._real = [name for name, array in self._model.items() if np.issubdtype(array.dtype, np.floating)]
        self.sizes = tuple(self._model[name].size for name in self._real)

    def fit(self, arrays: Arrays) -> bool:
        """Whether ``arrays`` have the same names, shapes and types."""
        return set(arrays) == set(self._model) and all(
            array.shape == self._model[name].shape and array.dtype == self._model[name].dtype
            for name, array in arrays.items()
        )

    def vector(self, arrays: Arrays | None = None) -> Vector:
        """The vector (d,) of ``arrays`` that fit, or of the model itself."""
        chosen = self._model if arrays is None else arrays
        return np.concatenate([np.zeros(0), *(chosen[name].ravel() for name in self._real)])

    def named(self, vector: Vector) -> dict[str, np.ndarray]:
        """The model with the floating-point numbers of ``vector`` (d,)."""
        filled, start = dict(self._model), 0
        for name, size in zip(self._real, self.sizes, strict=True):
            array = self._model[name]
            filled[name] = vector[start : start + size].reshape(array.shape).astype(array.dtype)
            start += size
        return filled
