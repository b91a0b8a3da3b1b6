"""The data sets that have an option in conf/dataset, or in a configuration folder of the user, by name."""

from pathlib import Path

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.runner.config import compose, options, targets


def names(config_dir: Path | None = None) -> list[str]:
    """The names of all data sets, in alphabetical order; raises ConfigError if ``config_dir`` is no folder."""
    return options.names("dataset", options.search(config_dir))


def build(name: str, config_dir: Path | None = None) -> Dataset:
    """The data set of ``robustfl-bench dataset=NAME``, with every other setting at its default.

    The options of the package come before those of ``config_dir``. Raises ConfigError when an option cannot be built.
    """
    try:
        dataset = targets.build(compose.resolve([f"dataset={name}"], options.search(config_dir)).config["dataset"])
    except ConfigError as error:
        raise ConfigError(f"dataset={name}: {error}") from error
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"dataset={name}: {type(dataset).__name__} must inherit from robustfl_bench.interfaces.Dataset"
        )
    return dataset
