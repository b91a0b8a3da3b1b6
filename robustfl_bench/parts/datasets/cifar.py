"""Readers for CIFAR's batches (https://www.cs.toronto.edu/~kriz/cifar.html) that run no code from a file."""

import io
import pickle
from typing import Any

import numpy as np

from robustfl_bench.base.errors import DataError, one_line

PIXELS = 3 * 32 * 32

# The only names in the files, as NumPy 1 and 2 spell them; each file builds one array with them.
ARRAY_PARTS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class Recorded:
    """An object that a pickle asks for: this class keeps its arguments and state and does nothing with them."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


def encoded(text: object, encoding: object) -> bytes:
    """The bytes of a string: Python 3 writes bytes so in the pickle protocol of Python 2."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("it encodes something else than bytes")
    return text.encode("latin1")


class RecordingUnpickler(pickle.Unpickler):
    """A pickle is a program. Here it can make containers, strings and numbers, and it can call two functions:
    ``Recorded``, in place of the parts of an array, and ``encoded``. Any other name in it is an error.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return encoded
        if (module, name) not in ARRAY_PARTS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR batch needs")
        return lambda *arguments: Recorded(*arguments)  # a new function each time: the program could change it


def parse_python(
    content: bytes, path: str, field: str = "labels", num_classes: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 3, 32, 32) uint8 and labels (N,) uint8 of a batch of the python version: a pickled dictionary with
    an array ``data`` (N, 3072) and the list ``field`` of labels. Raises DataError, beginning with ``path``, for
    all else.
    """
    try:
        # bytes: Python 2 wrote the official files, whose strings are the pixels too
        batch = RecordingUnpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise anything
        reason = one_line(error)
        raise DataError(f"{path}: not a CIFAR batch, cannot be unpickled: {reason}") from error
    if not isinstance(batch, dict):
        raise DataError(f"{path}: not a CIFAR batch, expected a pickled dict, got {type(batch).__name__}")
    fields = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    pixels, labels = _pixels(fields.get("data")), fields.get(field)
    if pixels is None:
        raise DataError(f"{path}: not a CIFAR batch, expected data of shape (N, {PIXELS}) and type uint8")
    if not isinstance(labels, list) or len(labels) != len(pixels) or not all(_is_label(x, num_classes) for x in labels):
        raise DataError(
            f"{path}: not a CIFAR-{num_classes} batch, expected a list of {len(pixels)} labels "
            f"from 0 to {num_classes - 1}"
        )
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.uint8)


def _pixels(data: object) -> np.ndarray | None:
    """The array (N, 3072) uint8 from the state that NumPy pickles: version, shape, type, column order, bytes."""
    match data:
        case Recorded(state=(_, (int(n), int(width)), Recorded(arguments=("u1" | b"u1", *_)), False | 0, bytes(raw))):
            if width == PIXELS and len(raw) == n * width:
                return np.frombuffer(raw, dtype=np.uint8).reshape(n, width)
    return None


def _is_label(value: object, num_classes: int) -> bool:
    return isinstance(value, int) and 0 <= value < num_classes


def parse_binary(content: bytes, path: str) -> tuple[np.ndarray, np.ndarray]:
    """The same from a batch of the binary version: records of one label byte and 3072 pixel bytes."""
    if not content or len(content) % (1 + PIXELS):
        raise DataError(f"{path}: holds {len(content)} bytes, expected a multiple of {1 + PIXELS}")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + PIXELS)
    if records[:, 0].max() > 9:
        raise DataError(f"{path}: has label {records[:, 0].max()}, expected 0 to 9")
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
