"""Data sets: tensors from checked files."""

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from robustfl_bench.base.errors import DataError
from robustfl_bench.base.public import facade
from robustfl_bench.parts.datasets import files

if TYPE_CHECKING:  # importing torch takes over a second, and `robustfl-data` does without it
    import torch

    from robustfl_bench.parts.datasets.base import Data, Dataset


_LOADED: "WeakValueDictionary[tuple[Dataset, Path, torch.device, str], Data]" = WeakValueDictionary()
"""What is in memory, by the arguments of ``_load``."""


def find_folder(data_dir: str | None = None) -> Path:
    """The data folder: ``data_dir``, else the environment's ROBUSTFL_DATA, else the user's cache folder."""
    named = data_dir or os.environ.get("ROBUSTFL_DATA")
    if named:
        return Path(named).expanduser().resolve()
    from platformdirs import user_cache_path

    return user_cache_path("robustfl_bench")


def load(dataset: "Dataset", data_dir: str | None, device: "torch.device", state: str = "") -> "Data":
    """The data set on ``device``, read once per process and ``state`` of its files: the jobs of a sweep share the
    tensors and must not write into them. Raises DataError when files are missing or damaged, or when samples and labels
    cannot be right.
    """
    return _load(dataset, find_folder(data_dir), device, state)


def require(dataset: "Dataset", data_dir: str | None) -> None:
    """Raise DataError if files of the data set are missing, as far as it describes them. Opens none that exist."""
    files.require(dataset.source, folder_of(data_dir))


def is_loaded(dataset: "Dataset", data_dir: str | None, device: "torch.device", state: str = "") -> bool:
    """Whether ``load`` would find the data set in memory."""
    return (dataset, folder_of(data_dir), device, state) in _LOADED


def folder_of(data_dir: str | None) -> Path:
    """``find_folder``, whose links are followed once a process."""
    return _found(data_dir or os.environ.get("ROBUSTFL_DATA"), os.getcwd())


@lru_cache(maxsize=16)
def _found(named: str | None, working_folder: str) -> Path:
    return find_folder(named)


def forget() -> None:
    """Read data sets again when they are loaded next."""
    _load.cache_clear()


@lru_cache(maxsize=4)  # CIFAR-10 takes 0.7 GB: enough for a sweep over data sets, not a leak
def _load(dataset: "Dataset", folder: Path, device: "torch.device", state: str) -> "Data":
    try:
        data = _as_tensors(dataset.load(folder))
    except OSError as error:
        if error.filename is None:  # raised by a reader, which names the file itself
            raise DataError(f"{dataset.name} cannot be read: {error}") from error
        raise DataError(
            f"{error.filename}: {dataset.name} cannot be read: {error.strerror}; put the file there, or set data_dir"
        ) from error
    _check(data, dataset)
    _LOADED[dataset, folder, device, state] = moved = data.to(device)
    return moved


def _as_tensors(data: "Data") -> "Data":
    """The data with samples in float32 (whole numbers of at least 32 bits stay, as they may be token ids) and labels in
    int64 or float32, from NumPy arrays or tensors of other types."""
    import numpy as np
    import torch

    def of(values: Any, are_labels: bool) -> Any:
        tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
        if not isinstance(tensor, torch.Tensor) or tensor.is_complex():
            return tensor
        if tensor.is_floating_point():
            return tensor.float()
        ids = tensor.dtype in (torch.int32, torch.int64)
        return tensor.long() if are_labels else tensor if ids else tensor.float()

    kept = {name: getattr(data, name) for name in ("train_x", "train_y", "test_x", "test_y")}
    cast = {name: of(values, name.endswith("y")) for name, values in kept.items()}
    unlike = {name: values for name, values in cast.items() if values is not kept[name]}
    return replace(data, **unlike) if unlike else data


_KINDS = {"samples": ("torch.float32", "torch.int32", "torch.int64"), "labels": ("torch.float32", "torch.int64")}


def _check(data: "Data", dataset: "Dataset") -> None:
    """Raise DataError unless every sample is finite and has a label, and every label is a class of the data set."""
    for part, x, y in (("training", data.train_x, data.train_y), ("test", data.test_x, data.test_y)):
        for name, values in (("samples", x), ("labels", y)):
            kind = str(values.dtype) if hasattr(values, "aminmax") else type(values).__name__
            if kind not in _KINDS[name]:
                fit = f"torch.as_tensor({name}).{'float' if name == 'samples' else 'long'}()"
                raise DataError(
                    f"{dataset.name}: the {part} {name} must be tensors of {', '.join(_KINDS[name])}, got {kind}: {fit}"
                )
        if tuple(x.shape[1:]) != tuple(dataset.input_shape):
            told = f"its input_shape {tuple(dataset.input_shape)}"
            raise DataError(f"{dataset.name}: the {part} samples have shape {tuple(x.shape[1:])}, expected {told}")
        if len(x) != len(y) or not len(y):
            raise DataError(f"{dataset.name}: {len(x)} {part} samples have {len(y)} labels, expected one for each")
        low, high = (value.item() for value in y.aminmax())
        if not y.is_floating_point() and (low < 0 or high >= dataset.num_classes):
            expected = f"expected 0 to {dataset.num_classes - 1}"
            raise DataError(f"{dataset.name}: the {part} labels go from {low} to {high}, {expected}")
        for name, values in (("samples", x), ("labels", y)):
            if not all(value.isfinite() for value in values.aminmax()):
                raise DataError(f"{dataset.name}: some {part} {name} are not finite numbers; {dataset.not_finite()}")
        if dataset.content == "words" and bool(((x[:, :-1] == 0) & (x[:, 1:] != 0)).any()):
            raise DataError(f"{dataset.name}: some {part} texts have 0, which is padding, before a word; put it behind")
    if data.owners is not None and len(data.owners) != len(data.train_y):
        raise DataError(f"{dataset.name}: {len(data.owners)} owners for {len(data.train_y)} training samples")


__getattr__, __dir__ = facade(__name__)
