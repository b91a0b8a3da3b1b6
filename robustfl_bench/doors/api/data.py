"""Arrays given as data, as a file that a command can read again."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import DataError, writable

if TYPE_CHECKING:
    import numpy as np

FOLDER = "data"
"""The folder in a results folder for arrays that were given to ``run`` or ``sweep``."""


def stored(settings: Mapping[str, Any], results_dir: str | Path | None) -> dict[str, Any]:
    """The settings, with arrays ``dataset=(X, y)`` or ``(X, y, X_test, y_test)`` as the file that holds them.

    The file, in the results folder, is named by its content and written once. A list of such is swept. Raises
    DataError, and ConfigError where the folder cannot be written.
    """
    value = settings.get("dataset")
    if isinstance(value, list):
        each = [stored({"dataset": item}, results_dir) for item in value]
        if paths := [one["dataset.path"] for one in each if "dataset.path" in one]:
            if len(paths) < len(each):
                raise DataError("a list for dataset holds arrays (X, y) alone, or names of data sets alone")
            return {**settings, "dataset": "arrays", "dataset.path": paths}
    if not isinstance(value, tuple) or not value or any(isinstance(item, str) for item in value):
        return dict(settings)

    import numpy as np

    from robustfl_bench.parts.datasets import own_files

    names = {2: ("x", "y"), 4: ("x_train", "y_train", "x_test", "y_test")}.get(len(value))
    if names is None:
        raise DataError(f"dataset takes arrays (X, y) or (X, y, X_test, y_test), got {len(value)} of them")
    arrays = {name: _array(name, item) for name, item in zip(names, value, strict=True)}
    total = hashlib.sha256()
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise DataError(f"{name} must be numbers, and labels numbers or words, got an array of Python objects")
        if place := own_files.first_not_finite(name, array):
            raise DataError(f"dataset has a number that is not finite: {place}; {own_files.MEND}")
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    path = Path(results_dir or "results").expanduser() / FOLDER / f"{total.hexdigest()[:16]}.npz"
    if not path.exists():
        partial = path.with_name(f".{os.getpid()}-{path.name}")
        with writable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                np.savez_compressed(partial, allow_pickle=False, **arrays)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)  # of a full disk
    return {**settings, "dataset": "arrays", "dataset.path": str(path)}


def _array(name: str, item: Any) -> "np.ndarray":
    """An array of what was given, which may be a tensor, a list, or a column of words of a table. Raises DataError."""
    import numpy as np

    if isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item):
        raise DataError(f"{name} has masked values, which would count as numbers; fill them or leave their samples out")
    try:
        array = np.asarray(item.detach().cpu() if hasattr(item, "detach") else item)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is no array: {error}") from error
    words = array.dtype.hasobject and all(isinstance(value, str) for value in array.flat)
    return array.astype(str) if words else array
