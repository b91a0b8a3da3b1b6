"""The data sets that have an option in conf/dataset, or in a configuration folder of the user, by name."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.config import options
from robustfl_bench.errors import ConfigError

if TYPE_CHECKING:
    from robustfl_bench.interfaces import Dataset

ABILITIES = ("name", "num_classes", "input_shape", "load")


def names(config_dir: Path | None = None) -> list[str]:
    """The names of all data sets, in alphabetical order; raises ConfigError if ``config_dir`` is no folder."""
    if config_dir is not None and not config_dir.is_dir():
        raise ConfigError(f"--config-dir must be a folder with dataset/NAME.yaml in it, got {config_dir}")
    return sorted({path.stem for folder in _folders(config_dir) for path in (folder / "dataset").glob("*.yaml")})


def build(name: str, config_dir: Path | None = None) -> "Dataset":
    """The data set that ``robustfl-bench dataset=NAME`` uses, all else at its default.

    The options of the package come before those of ``config_dir``. Raises ConfigError when an option cannot be built.
    """
    dataset = _built(options.option("dataset", name, _folders(config_dir)), f"dataset={name}")
    if missing := [ability for ability in ABILITIES if not hasattr(dataset, ability)]:
        raise ConfigError(f"dataset={name}: {type(dataset).__name__} needs {', '.join(ABILITIES)}, has no {missing[0]}")
    return dataset  # type: ignore[no-any-return]


def _folders(config_dir: Path | None) -> tuple[Path, ...]:
    return (options.CONF,) if config_dir is None else (options.CONF, config_dir.resolve())


def _built(value: Any, where: str) -> Any:
    """A value of an option, with interpolations replaced and classes called, as Hydra does it."""
    if isinstance(value, Mapping):
        fields = {key: _built(item, where) for key, item in value.items() if key != "_target_"}
        if "_target_" not in value:
            return fields
        module, _, attribute = str(value["_target_"]).rpartition(".")
        try:
            return getattr(import_module(module), attribute)(**fields)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            hint = "; is its folder in PYTHONPATH?" if isinstance(error, ImportError) else ""
            raise ConfigError(f"{where}: cannot build {value['_target_']}: {error}{hint}") from error
    if isinstance(value, str) and "${" in value:
        key, (_, scalars) = options.interpolated(value), options.defaults()
        if key is None or key not in scalars:
            raise ConfigError(f"{where}: robustfl-data knows the keys of config.yaml only, got {value}")
        return scalars[key]
    return value
