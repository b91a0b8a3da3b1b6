"""Lets Hydra compose options that are classes from outside, ``aggregator=my_module:MyRule``, like any other option."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from robustfl_bench.config import options, outside
from robustfl_bench.config.parts import GROUPS

_SCHEME = "class"


class _Classes(ConfigSource):
    """A source of configs that holds every class: its fields are the config."""

    @staticmethod
    def scheme() -> str:
        return _SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return False

    def is_config(self, config_path: str) -> bool:
        group, _, option = config_path.partition("/")
        return group in GROUPS and outside.is_class(option)

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, option = config_path.partition("/")
        place = options.place_of(group, option)
        header = {"package": f"{group}.{place}" if place else None}
        config = OmegaConf.create(outside.content(group, option))
        return ConfigResult(provider=self.provider, path=self.full_path(), config=config, header=header)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []


class _SearchClasses(SearchPathPlugin):
    """Hydra looks for classes after all files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("robustfl_bench", f"{_SCHEME}://")


def register() -> None:
    """Make the source known to Hydra."""
    for plugin in (_Classes, _SearchClasses):
        Plugins.instance().register(plugin)
