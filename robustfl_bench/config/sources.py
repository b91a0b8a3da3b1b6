"""Sources of Hydra's composition besides files: classes from outside, ``aggregator=my_module:MyRule``, and stored
configs."""

from collections.abc import Mapping
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from robustfl_bench.config import options, outside
from robustfl_bench.engine.parts import GROUPS

STORED: dict[tuple[str, str], Mapping[str, Any]] = {}
"""The stored configs that this process offers as presets, by group and name. Not in Hydra's own store, which Hydra
copies deeply for every composition.
"""

_SCHEME = "robustfl"


class _Besides(ConfigSource):
    """A config source with every class from outside, whose fields are its config, and the ``STORED`` configs."""

    @staticmethod
    def scheme() -> str:
        return _SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return any(group == config_path for group, _ in STORED)

    def is_config(self, config_path: str) -> bool:
        group, _, name = config_path.partition("/")
        return (group, name) in STORED or (group in GROUPS and outside.is_class(name))

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, name = config_path.partition("/")
        if (content := STORED.get((group, name))) is not None:
            package: str | None = "_global_"
        else:
            content, place = outside.content(group, name), options.place_of(group, name)
            package = f"{group}.{place}" if place else None
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(dict(content)), {"package": package})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []


class _Search(SearchPathPlugin):
    """Adds the source to Hydra's search path, after all files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("robustfl_bench", f"{_SCHEME}://")


def know(group: str, name: str, content: Mapping[str, Any]) -> None:
    """Offer a stored config to Hydra as the preset ``group=name``."""
    STORED[group, name] = content


def register() -> None:
    """Register the source with Hydra."""
    for plugin in (_Besides, _Search):
        Plugins.instance().register(plugin)
