"""The two formats of CIFAR-10's batches (https://www.cs.toronto.edu/~kriz/cifar.html), read without trusting them."""

import io
import pickle
from typing import Any

import numpy as np

from robustfl_bench.errors import DataError

PIXELS = 3 * 32 * 32

# All that the pickles name, in the spelling of either NumPy: how an array is rebuilt, its class, and its type's class.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickles containers, strings, numbers and NumPy arrays, and refuses to look up anything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR batch needs")
        return ALLOWED[module, name]


def parse_python(content: bytes, path: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 3, 32, 32) uint8 and labels (N,) uint8 of a batch of the python version.

    A batch is a pickled dictionary with ``data`` (N, 3072) uint8 and a list ``labels``. A pickle is a program: this
    one may only build arrays, lists, strings and numbers. Raises DataError, beginning with ``path``, for all else.
    """
    try:
        # bytes: Python 2 wrote the official files, and their text is not all ASCII
        batch = ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{path}: not a CIFAR batch, cannot be unpickled: {error}") from error
    if not isinstance(batch, dict):
        raise DataError(f"{path}: not a CIFAR batch, expected a pickled dict, got {type(batch).__name__}")
    fields = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    pixels, labels = fields.get("data"), fields.get("labels")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise DataError(f"{path}: not a CIFAR batch, expected data of shape (N, {PIXELS}) and type uint8")
    if not isinstance(labels, list) or len(labels) != len(pixels) or not set(labels) <= set(range(10)):
        raise DataError(f"{path}: not a CIFAR-10 batch, expected a list of {len(pixels)} labels from 0 to 9")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.uint8)


def parse_binary(content: bytes, path: str) -> tuple[np.ndarray, np.ndarray]:
    """The same from a batch of the binary version: records of one label byte and 3072 pixel bytes."""
    if not content or len(content) % (1 + PIXELS):
        raise DataError(f"{path}: holds {len(content)} bytes, expected a multiple of {1 + PIXELS}")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + PIXELS)
    if records[:, 0].max() > 9:
        raise DataError(f"{path}: has label {records[:, 0].max()}, expected 0 to 9")
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
