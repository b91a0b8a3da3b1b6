"""Data of the user: arrays in an .npz, a table in a .csv, or a folder of images (ours)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Option, one_of
from robustfl_bench.parts.datasets.base import Data, Dataset, Scaling
from robustfl_bench.parts.datasets.own_files import Own, not_finite, read


@dataclass(frozen=True)
class Arrays(Dataset):
    """Samples and labels of your own, of any integer or floating-point type.

    - ``.npz``: arrays ``x`` and ``y``, or ``x_train``, ``y_train``, ``x_test`` and ``y_test`` (also ``train_x`` ...).
      Samples are (N, d), images (N, H, W), (N, C, H, W) or, with 1, 3 or 4 channels, (N, H, W, C).
    - ``.csv``: numbers in columns, and a ``label``; a column ``split`` says ``train`` or ``test``. A first line without
      numbers names the columns.
    - A folder of images of one size: a sub-folder for each class, or these in ``train`` and ``test``.

    Labels are numbers or words; classes are numbered in their order. ``client`` names the column of a table, or the
    array (N,) of an ``.npz``, that says whose a sample is, by numbers or words: with ``partition=natural`` these are
    the clients, in their order. An array for ``x_train`` may leave out the test samples. Without a test set,
    ``test_share`` of the samples, the same in every run, is for testing; each class and client keeps one for training.
    ``digest`` is the SHA-256 of the files and takes the place of ``path`` in the run's identity. Nothing in the files
    is executed. A file that cannot be read raises DataError.
    """

    path: str
    """an .npz with x and y, a .csv, or a folder of images"""
    digest: str | None = None
    """SHA-256 of the files: changed files make another run, moved ones do not; null: any files"""
    label: str | None = None
    """column of the labels in a .csv; null: label, class, target or y, else the last one"""
    client: str | None = None
    """column of a .csv, or array of an .npz, that says whose a sample is, for partition=natural; null: nobody's"""
    test_share: Annotated[float, Option(0, 1, "()")] = 0.2
    """share of the samples for testing, if the files have no test set"""
    scaling: Annotated[
        str, one_of(standardize="mean 0, sd 1 over the training set, by channel or column", none="as they are")
    ] = "standardize"
    """samples"""

    name = "arrays"

    def __post_init__(self) -> None:
        if not self.path.strip():
            raise ConfigError("dataset.path must name a file or a folder")

    @property
    def num_classes(self) -> int:
        """Number of different labels in the files."""
        return len(self._files.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self._files.x.shape[1:]

    @property
    def class_names(self) -> Sequence[str]:
        """The labels in the files."""
        return _called(self._files.classes)

    @property
    def owner_names(self) -> Sequence[str]:
        """The names in the column or array ``client``."""
        return _called(self._files.names)

    def not_finite(self) -> str:
        return not_finite(Path(self.path).expanduser())

    @property
    def _files(self) -> Own:
        return read(self.path, self.digest, self.label, self.client)

    def load(self, folder: Path) -> Data:
        """Read the files; their place does not depend on the data ``folder``."""
        import torch

        files = self._files
        is_test = files.is_test
        if is_test is None:
            order = seeding.generator(0, "arrays", "test").permutation(len(files.y))
            is_test = order < max(1, min(len(order) - 1, round(self.test_share * len(order))))
            for groups in (files.y, files.owners):
                _keep_one(is_test, order, groups)
        mean, sd = np.zeros(1, np.float32), np.ones(1, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused when all data are checked
            x = files.x.astype(np.float32)
            if self.scaling == "standardize":
                mean, sd = _moments(x[~is_test])
                x = (x - mean) / sd
        train_x, train_y, test_x, test_y = (
            torch.from_numpy(np.ascontiguousarray(values[chosen]))
            for chosen in (~is_test, is_test)
            for values in (x, files.y.astype(np.int64))
        )
        affine = None
        if files.are_pixels:
            each = (np.broadcast_to(value / np.float32(files.top), (x.shape[1], 1, 1)).copy() for value in (mean, sd))
            affine = Scaling(*map(torch.from_numpy, each))
        owners = None if files.owners is None else torch.from_numpy(files.owners[~is_test])
        inputs = {"mean": mean.tolist(), "sd": sd.tolist(), "classes": self.class_names}
        return Data(train_x, train_y, test_x, test_y, "own files", scaling=affine, owners=owners, inputs=inputs)


def _keep_one(is_test: np.ndarray, order: np.ndarray, groups: np.ndarray | None) -> None:
    """Take a sample of each group back from the test set if all of them are there, unless it is the only one there."""
    for group in np.setdiff1d(groups[is_test], groups[~is_test]) if groups is not None else ():
        own = np.flatnonzero(groups == group)
        if is_test.sum() > 1:
            is_test[own[order[own].argmax()]] = False


def _called(values: Sequence[object]) -> list[str]:
    """Values of a column in words; a whole number has no point."""
    return [str(int(value)) if isinstance(value, float) and value.is_integer() else str(value) for value in values]


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd over samples, and over the pixels of each channel (C, 1, 1); an sd of 0 is 1."""
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    mean = x.mean(axis=axes, keepdims=True, dtype=np.float64)[0].astype(np.float32)
    sd = x.std(axis=axes, keepdims=True, dtype=np.float64)[0].astype(np.float32)
    return mean, np.where(sd > 0, sd, np.float32(1))
