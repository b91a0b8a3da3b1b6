"""What several verbs of ``robustfl-data`` use: their arguments, and data sets by name."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.base.console import Parser, completed, reported
from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.parts.datasets import find_folder, load
from robustfl_bench.runner.config import data_sets

if TYPE_CHECKING:
    from robustfl_bench.parts.datasets.base import Data, Dataset
    from robustfl_bench.parts.datasets.files import Source

PROGRAM = "robustfl-data"


def add_names(parser: Parser) -> None:
    """The names of data sets, and the arguments of ``add_folders``."""
    names = parser.add_argument("names", nargs="+", metavar="NAME", help=", ".join(data_sets.names()))
    completed(names, lambda **_: data_sets.names())
    add_folders(parser)


def add_folders(parser: Parser) -> None:
    """The arguments ``--data-dir`` and ``--config-dir``."""
    parser.add_argument("--data-dir", help="the data folder (ROBUSTFL_DATA if set, else the user's cache folder)")
    parser.add_argument("--config-dir", type=Path, help="a folder with dataset/NAME.yaml files for your own data sets")


def for_each(command: Callable[[str, Dataset, Path], None], arguments: Namespace) -> int:
    """Call the command with each named data set and the data folder; returns the largest exit code. A data set that is
    missing or damaged does not stop the others. Raises ConfigError for an unknown name."""
    root, config_dir = find_folder(arguments.data_dir), arguments.config_dir
    datasets = {name: data_sets.build(_checked(name, config_dir), config_dir) for name in arguments.names}
    return max(reported(command, name, dataset, root, prefix=PROGRAM) for name, dataset in datasets.items())


def _checked(name: str, config_dir: Path | None) -> str:
    names = data_sets.names(config_dir)
    if name not in names:
        raise ConfigError(f"no data set {name!r}{near(name, names) or '; there are ' + ', '.join(names)}")
    return name


def sources(dataset: Dataset) -> list[Source]:
    """The descriptions of a data set's files, those of its base first; empty if it has none."""
    described = [dataset.source] if dataset.source else []
    while described and described[0].base is not None:
        described.insert(0, described[0].base)
    return described


def loaded(dataset: Dataset, root: Path) -> Data:
    """The data of a data set, on the CPU. Raises DataError."""
    import torch  # over a second, which only those who load data pay

    return load(dataset, str(root), torch.device("cpu"))
