"""What Hydra needs to compose ``conf/`` besides its files: the resolvers, and classes from outside, such as
``aggregator=my_module:MyRule``."""

from collections.abc import Callable
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from robustfl_bench.runner.config import options, outside, resolvers
from robustfl_bench.train.parts import GROUPS

_SCHEME = "robustfl"


class _Classes(ConfigSource):
    """A config source with every class from outside, whose fields are its config."""

    @staticmethod
    def scheme() -> str:
        return _SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return False

    def is_config(self, config_path: str) -> bool:
        group, _, name = config_path.partition("/")
        return group in GROUPS and outside.is_class(name)

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, name = config_path.partition("/")
        place = options.place_of(group, name)
        content = OmegaConf.create(outside.content(group, name))
        header = {"package": f"{group}.{place}" if place else None}
        return ConfigResult(self.provider, self.full_path(), content, header)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []


class _Search(SearchPathPlugin):
    """Adds the source to Hydra's search path, after all files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("robustfl_bench", f"{_SCHEME}://")


def register() -> None:
    """Make the source known to Hydra, and the resolvers to OmegaConf."""
    for plugin in (_Classes, _Search):
        Plugins.instance().register(plugin)
    for name, function in resolvers.PLAIN.items():
        OmegaConf.register_new_resolver(name, function, replace=True)
    for name, function in resolvers.BY_ROOT.items():
        OmegaConf.register_new_resolver(name, _of_root(function), replace=True)


def _of_root(function: Callable[..., Any]) -> Callable[..., Any]:
    """A resolver that gets the whole config, which OmegaConf passes as ``_root_``, as plain containers."""

    def resolve(*arguments: Any, _root_: DictConfig) -> Any:
        return function(*arguments, _root_=OmegaConf.to_container(_root_))

    return resolve
