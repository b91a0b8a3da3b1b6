"""What the composer of this package leaves to Hydra's, found without importing Hydra."""

import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from robustfl_bench.base.errors import ConfigError

PLUGINS, OURS = "hydra_plugins", "robustfl_bench"
"""The package of all Hydra plugins, and the module in it with those of this package."""


class Beyond(ConfigError):
    """This composer does not read a word or a file, but Hydra's may."""


@dataclass(frozen=True)
class ForHydra:
    """What a command says to Hydra besides the settings of its runs.

    ``config_path`` and ``config_name`` are the folder and the name of the primary config, None for
    ``conf/config.yaml``; ``overrides`` are the words ``hydra/...`` and ``hydra....``. ``number`` is that of a cell in
    its sweep. ``composed`` is what Hydra has composed of the words of a job. With ``is_left``, Beyond is raised instead
    of asking Hydra.
    """

    config_path: str | None = None
    config_name: str | None = None
    overrides: tuple[str, ...] = ()
    number: int | None = None
    composed: Any = field(default=None, compare=False)
    is_left: bool = False

    @property
    def is_asked(self) -> bool:
        """Whether a command says anything to Hydra."""
        return bool(self.config_path or self.config_name or self.overrides)

    @property
    def program(self) -> list[str]:
        """The words that a command needs for the same configs."""
        flags = {"--config-path": self.config_path, "--config-name": self.config_name}
        searching = [word for word in self.overrides if word.lstrip("+").startswith("hydra.searchpath=")]
        return [*(word for flag, value in flags.items() if value for word in (flag, value)), *searching]

    @property
    def composes(self) -> bool:
        """Whether Hydra composes every run, as its files are not those of this package alone."""
        return bool(self.program)


NOTHING = ForHydra()


class Composed(NamedTuple):
    """What overrides compose, by this package or by Hydra: the ``config`` with interpolations as written, the option of
    each group, what presets sweep, what is asked of Hydra that composing does not do, and the roots of groups of the
    user."""

    config: dict[str, Any]
    choices: Mapping[str, Any]
    swept: dict[str, Any]
    unobeyed: Sequence[str] = ()
    groups: frozenset[str] = frozenset()


def check_single(key: str, text: str) -> None:
    """Raise ConfigError for a setting of Hydra that no single run obeys."""
    if key.startswith("hydra") and re.split("[./]", key)[1:2] in (["launcher"], ["sweeper"], ["sweep"]):
        raise ConfigError(f"{text} is for sweeps, with -m")


def is_option(path: str) -> bool:
    """Whether Hydra has the config of this path, ``aggregator/mine``, in its ConfigStore, and not in a file."""
    return _type_of(f"{path}.yaml") == "CONFIG"


def is_group(path: str, folders: tuple[Path, ...]) -> bool:
    """Whether there are options of this group, in one of the folders or in Hydra's ConfigStore."""
    return any((folder / path).is_dir() for folder in folders) or _type_of(path) == "GROUP"


def import_plugins() -> None:
    """Import the plugins of other packages for Hydra, which can bring options and resolvers; else not even Hydra."""
    found = find_spec(PLUGINS)
    places = found.submodule_search_locations if found is not None else None
    if any(module.name != OURS for module in pkgutil.iter_modules(places)):
        from hydra.core.plugins import Plugins

        Plugins.instance()


def _type_of(path: str) -> str:
    import_plugins()
    store = sys.modules.get("hydra.core.config_store")
    return store.ConfigStore.instance().get_type(path).name if store is not None else "NOT_FOUND"
