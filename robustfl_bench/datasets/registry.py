"""The data sets that have an option in conf/dataset, or in a configuration folder of the user, by name."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from robustfl_bench.config import options, presets
from robustfl_bench.errors import ConfigError
from robustfl_bench.interfaces import Dataset


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
        dataset = _built(presets.resolve([f"dataset={name}"], _search(config_dir)).config["dataset"])
    except (ConfigError, yaml.YAMLError) as error:
        raise ConfigError(f"dataset={name}: {error}") from error
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"dataset={name}: {type(dataset).__name__} must inherit from robustfl_bench.interfaces.Dataset"
        )
    return dataset


def _search(config_dir: Path | None) -> options.Search:
    return options.HERE if config_dir is None else (*options.HERE, config_dir.resolve())


def _built(value: Any) -> Any:
    """A value of an option; a mapping with a ``_target_`` is a call of that class, as for Hydra."""
    if not isinstance(value, Mapping):
        return value
    fields = {key: _built(item) for key, item in value.items() if key != "_target_"}
    if "_target_" not in value:
        return fields
    module, _, attribute = str(value["_target_"]).rpartition(".")
    try:
        return getattr(import_module(module), attribute)(**fields)
    except ConfigError:
        raise
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        hint = "; is its folder in PYTHONPATH?" if isinstance(error, ImportError) else ""
        raise ConfigError(f"cannot build {value['_target_']}: {error}{hint}") from error
