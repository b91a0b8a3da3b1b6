"""Arrays, tables and data sets of other packages given as data, as a file that a command can read again."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import DataError, writable

if TYPE_CHECKING:
    import numpy as np

FOLDER = "data"
"""The folder in a results folder for arrays that were given to ``run`` or ``sweep``."""


def stored(settings: Mapping[str, Any], results_dir: str | Path | None) -> dict[str, Any]:
    """The settings, with data given as ``dataset`` as the file that holds them.

    These are arrays ``(X, y)`` or ``(X, y, X_test, y_test)``, a mapping of arrays with these names, a table of pandas,
    a data set of PyTorch, or one of Hugging Face, whose splits ``train`` and ``test`` may be in a mapping. The file, in
    the results folder, is named by its content and written once. A list of such is swept. Raises DataError, and
    ConfigError where the folder cannot be written.
    """
    value = settings.get("dataset")
    if isinstance(value, list):
        each = [stored({"dataset": item}, results_dir) for item in value]
        if paths := [one["dataset.path"] for one in each if "dataset.path" in one]:
            if len(paths) < len(each):
                raise DataError("a list for dataset holds arrays (X, y) alone, or names of data sets alone")
            return {**settings, "dataset": "arrays", "dataset.path": paths}
    columns = (settings.get("dataset.label"), settings.get("dataset.client"))
    if (given := _given(value, *columns)) is None:
        return dict(settings)

    import numpy as np

    from robustfl_bench.parts.datasets import own_files

    arrays = {name: _array(name, item) for name, item in given.items()}
    settings = {name: item for name, item in settings.items() if name != "dataset.label"}
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


NAMES = {2: ("x", "y"), 4: ("x_train", "y_train", "x_test", "y_test")}
"""The names of arrays in a file, by their number."""


def _given(value: Any, label: str | None, client: str | None) -> dict[str, Any] | None:
    """The arrays of what is given as data, by their names in a file; None for what is no data. Raises DataError."""
    if isinstance(value, tuple) and value and not any(isinstance(item, str) for item in value):
        if len(value) not in NAMES:
            raise DataError(f"dataset takes arrays (X, y) or (X, y, X_test, y_test), got {len(value)} of them")
        return dict(zip(NAMES[len(value)], value, strict=True))
    if isinstance(value, Mapping) and "_target_" not in value:
        if {"train", "test"} <= value.keys() and all(_is_dataset(value[part]) for part in ("train", "test")):
            parts = {part: _of_dataset(value[part], label, client) for part in ("train", "test")}
            split = {f"{name}_{part}": arrays[name] for part, arrays in parts.items() for name in ("x", "y")}
            return {**split, **({client: parts["train"][client]} if client else {})}
        wanted = next((names for names in NAMES.values() if {*names} <= value.keys()), None)
        if wanted is not None:
            return {name: value[name] for name in (*wanted, *([client] if client and client in value else []))}
    return _of_dataset(value, label, client) if _is_dataset(value) else None


def _is_dataset(value: Any) -> bool:
    """Whether it is a table of pandas, or a data set of PyTorch or Hugging Face."""
    if isinstance(value, type):
        return False
    bases = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(value).__mro__}
    return bool(bases & {"pandas.DataFrame", "torch.Dataset", "datasets.Dataset"})


def _of_dataset(value: Any, label: str | None, client: str | None) -> dict[str, Any]:
    """The arrays of a table or a data set. Raises DataError."""
    import numpy as np

    from robustfl_bench.parts.datasets.own_files import LABELS

    if hasattr(value, "with_format"):  # of Hugging Face: its columns, images as arrays
        columns: dict[str, Any] = dict(value.with_format("numpy")[:])
    elif hasattr(value, "columns"):
        columns = {str(name): value[name].to_numpy() for name in value.columns}
    else:
        return _of_pairs(value)
    chosen = label or next((name for name in (*LABELS, "labels") if name in columns and name != client), [*columns][-1])
    for name in (chosen, *([client] if client else [])):
        if name not in columns:
            raise DataError(f"dataset has no column {name!r}; there are: {', '.join(columns)}")
    rest = {name: np.asarray(column) for name, column in columns.items() if name not in (chosen, client)}
    if odd := [name for name, column in rest.items() if column.dtype.kind not in "biuf"]:
        raise DataError(f"dataset: the column {odd[0]!r} has no numbers: leave it out, or make numbers of it "
                        "(pandas.get_dummies)")  # fmt: skip
    several = [column for column in rest.values() if column.ndim > 1]
    x = several[0] if len(rest) == len(several) == 1 else np.column_stack([*rest.values()])
    return {"x": x, "y": columns[chosen], **({client: columns[client]} if client else {})}


def _of_pairs(value: Any) -> dict[str, Any]:
    """The arrays of a data set of PyTorch, whose items are samples with labels. Raises DataError."""
    import torch

    if len(tensors := getattr(value, "tensors", ())) == 2:
        return dict(zip(("x", "y"), tensors, strict=True))
    if not hasattr(value, "__len__"):
        raise DataError(f"dataset is a {type(value).__name__} without a length; give arrays (X, y)")
    items: Iterable[Any] = (value[i] for i in range(len(value)))
    try:
        samples, labels = zip(*((torch.as_tensor(x), int(y)) for x, y in items), strict=True)
        return {"x": torch.stack(samples), "y": torch.tensor(labels)}
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"dataset is a {type(value).__name__} whose items are no pairs of a tensor and a label: {error}"
                        ) from error  # fmt: skip


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
