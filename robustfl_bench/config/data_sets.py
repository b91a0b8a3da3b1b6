"""The data sets that have an option in conf/dataset, or in a configuration folder of the user, by name."""

from pathlib import Path

import yaml

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import compose, options, targets
from robustfl_bench.datasets.base import Dataset


def names(config_dir: Path | None = None) -> list[str]:
    """The names of all data sets, in alphabetical order; raises ConfigError if ``config_dir`` is no folder."""
    if config_dir is not None and not config_dir.is_dir():
        raise ConfigError(f"--config-dir must be a folder with dataset/NAME.yaml in it, got {config_dir}")
    return options.names("dataset", _search(config_dir))


def build(name: str, config_dir: Path | None = None) -> Dataset:
    """The data set of ``robustfl-bench dataset=NAME``, with every other setting at its default.

    The options of the package come before those of ``config_dir``. Raises ConfigError when an option cannot be built.
    """
    try:
        dataset = targets.build(compose.resolve([f"dataset={name}"], _search(config_dir)).config["dataset"])
    except (ConfigError, yaml.YAMLError) as error:
        raise ConfigError(f"dataset={name}: {error}") from error
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"dataset={name}: {type(dataset).__name__} must inherit from robustfl_bench.interfaces.Dataset"
        )
    return dataset


def _search(config_dir: Path | None) -> options.Search:
    return options.HERE if config_dir is None else (*options.HERE, config_dir.resolve())
