"""Data sets: real files, checked, as tensors."""

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing torch takes over a second, and `robustfl-data` does without it
    import torch

    from robustfl_bench.interfaces import Data, Dataset


def find_folder(data_dir: str | None = None) -> Path:
    """The data folder: ``data_dir``, else the environment's ROBUSTFL_DATA, else the user's cache folder."""
    named = data_dir or os.environ.get("ROBUSTFL_DATA")
    if named:
        return Path(named).expanduser().resolve()
    from platformdirs import user_cache_path

    return user_cache_path("robustfl_bench")


def load(dataset: "Dataset", data_dir: str | None, device: "torch.device") -> "Data":
    """The data set on ``device``, read once per process: the jobs of a sweep share the tensors and must not write
    into them. Raises DataError when files are missing or damaged.
    """
    return _load(dataset, find_folder(data_dir), device)


@lru_cache(maxsize=4)  # CIFAR-10 takes 0.7 GB: enough for a sweep over data sets, not a leak
def _load(dataset: "Dataset", folder: Path, device: "torch.device") -> "Data":
    return dataset.load(folder).to(device)
