"""Configs that Hydra composes: of what the composer of this package does not read."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, ClassVar

import hydra
import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.base.errors import ConfigError, near, one_line
from robustfl_bench.runner.config import identity, omega, options, words
from robustfl_bench.runner.config.beyond import Composed, ForHydra
from robustfl_bench.runner.config.options import CONF, Search
from robustfl_bench.runner.config.words import Override
from robustfl_bench.train.parts import GROUPS

VERSION = "1.3"
"""The version of Hydra whose defaults count."""

CONFIG = "config"
"""The name of the primary config."""


@contextmanager
def composing(overrides: Sequence[Override], search: Search, asked: ForHydra) -> Iterator[Composed]:
    """The config of overrides as Hydra composes it; within the context, ``${hydra:...}`` is resolved. Raises
    ConfigError."""
    if forms := [one.text for one in overrides if one.key in identity.FORMS and one.written != "null"]:
        raise ConfigError(f"{forms[0]} goes only with words that need no Hydra: a stored config has all its settings")
    if others := [one.text for one in overrides if one.root == "hydra" and one.key != "hydra.searchpath"]:
        raise ConfigError(f"{others[0]} is for the command robustfl-bench")
    texts = [one.text for one in overrides]
    if asked.composed is not None and omega.plain(HydraConfig.get().overrides.task) == texts:
        yield _found(asked.composed, HydraConfig.get(), is_obeyed=True)
        return
    before = HydraConfig.instance().cfg
    try:
        with explained():
            config = composed(texts, search, asked)
            HydraConfig.instance().set_config(config)
        is_job = asked.composed is not None or asked.number is not None
        yield _found(config, config.hydra, is_obeyed=is_job)
    finally:
        HydraConfig.instance().cfg = before


def composed(texts: Sequence[str], search: Search, asked: ForHydra) -> DictConfig:
    """The whole config of the words, with the node ``hydra``, as a job of Hydra has it."""
    others = [("robustfl_bench", CONF)] if asked.config_path else []
    folders = [*others, *(("command-line", folder) for folder in search[1:])]
    with initialized(main_folder(asked), folders):
        every = [*asked.overrides, *texts]
        try:
            config = hydra.compose(asked.config_name or CONFIG, every, return_hydra_config=True)
        except ValueError as error:  # of a defaults list
            raise ConfigError(one_line(error)) from error
    return as_job(config, asked.number or 0, Path.cwd())


def as_job(config: DictConfig, number: int, output_dir: Path) -> DictConfig:
    """The config with what Hydra adds to that of a job."""
    with read_write(config.hydra), open_dict(config.hydra):
        config.hydra.job.num, config.hydra.job.id = number, str(number)
        config.hydra.runtime.output_dir = str(output_dir.absolute())
    return config


def main_folder(asked: ForHydra) -> str:
    """The folder of the primary config. Raises ConfigError."""
    folder = Path(asked.config_path or CONF).expanduser().resolve()
    if not folder.is_dir():
        name = asked.config_name or CONFIG
        raise ConfigError(f"--config-path must be a folder, with the file {name}.yaml in it or in conf/, got {folder}")
    return str(folder)


@contextmanager
def initialized(
    main: str | None, folders: Sequence[tuple[str, Path]], job: str = "robustfl-bench", version: str | None = VERSION
) -> Iterator[None]:
    """Within the context Hydra composes the files of ``main``, a folder or ``pkg://PACKAGE``, and then those of other
    folders, each with who asks for it; also while Hydra is at work for an app."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with beside(folders), warnings.catch_warnings():
            warnings.filterwarnings("ignore", _VERSIONED)
            if main is None:
                begin: Any = hydra.initialize(None, job, version_base=version)
            elif main.startswith(_PACKAGE):
                begin = hydra.initialize_config_module(main.removeprefix(_PACKAGE), job, version_base=version)
            else:
                begin = hydra.initialize_config_dir(main, job, version_base=version)
            with begin:
                yield
    finally:
        GlobalHydra.instance().hydra = outer


_PACKAGE = "pkg://"

_VERSIONED = "The version_base parameter is deprecated"
"""A warning of Hydra 1.4, whose defaults are those of VERSION; Hydra 1.3 warns where the parameter is not given."""


class _Beside(SearchPathPlugin):
    """Adds the folders of the present command to Hydra's search path, each with who asks for it."""

    folders: ClassVar[Sequence[tuple[str, Path]]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for provider, folder in self.folders:
            search_path.append(provider, f"file://{folder}")


@contextmanager
def beside(folders: Sequence[tuple[str, Path]]) -> Iterator[None]:
    """Within the context, Hydra also searches these folders, after that of the primary config."""
    Plugins.instance().register(_Beside)
    before, _Beside.folders = _Beside.folders, folders
    try:
        yield
    finally:
        _Beside.folders = before


def _found(config: DictConfig, own: Any, is_obeyed: bool) -> Composed:
    raw: Any = omega.plain(config)
    runtime: Any = omega.plain(own)
    tree = _plain({key: value for key, value in raw.items() if key != "hydra"}, ())
    choices = {group: name for group, name in runtime["runtime"]["choices"].items() if isinstance(name, str | None)}
    known = (*GROUPS, *words.PRESETS)
    groups = frozenset(
        (place or group).partition("/")[0].partition(".")[0]
        for group, _, place in (key.partition("@") for key in choices)
        if group.partition("/")[0] not in (*known, "hydra")
    )
    refused = [f"{key} is for the command robustfl-bench, which obeys it" for key in unobeyed(runtime)]
    params = dict(runtime["sweeper"].get("params") or {})
    return Composed(tree, choices, params, () if is_obeyed else refused, groups)


def unobeyed(runtime: Mapping[str, Any]) -> list[str]:
    """The settings of ``hydra`` that ask for what only a job of Hydra does."""
    logging = runtime["runtime"]["choices"].get("hydra/job_logging") not in ("disabled", None)
    asked = {
        "hydra.output_subdir": runtime["output_subdir"] is not None,
        "hydra.job.chdir": bool(runtime["job"]["chdir"]),
        "hydra.job.env_set": bool(runtime["job"]["env_set"]),
        "hydra/job_logging": logging or any("hydra.job_logging" in word for word in runtime["overrides"]["hydra"]),
    }
    return [key for key, is_asked in asked.items() if is_asked]


def _plain(value: Any, path: tuple[str, ...]) -> Any:
    """Plain containers, whose interpolations begin at the root."""
    if isinstance(value, Mapping):
        return {key: _plain(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, (*path, str(index))) for index, item in enumerate(value)]
    if isinstance(value, str) and "${" in value:
        return _RELATIVE.sub(lambda match: f"${{{'.'.join([*path[: -len(match[1])], match[2]])}", value)
    return str(value) if isinstance(value, PurePath) else value


_RELATIVE = re.compile(r"\$\{(\.+)(\w)")


@contextmanager
def explained() -> Iterator[None]:
    """Errors of Hydra within the context are ConfigErrors in one line."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "provider=.*not available", UserWarning)
            warnings.filterwarnings("ignore", _VERSIONED)
            yield
    except UserWarning as error:
        raise ConfigError(f"hydra.searchpath names a place without options: {str(error).rstrip('.')}") from error
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(_words(error)) from error
    except RecursionError as error:
        raise ConfigError("a config includes itself in its defaults") from error


def _words(error: Exception) -> str:
    """An error of Hydra in one line."""
    if isinstance(error, yaml.YAMLError):
        return f"cannot read {options.not_yaml(error)}"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return f"unknown {group} {name!r}{near(name, error.options)}; there are: {', '.join(error.options)}"
    if isinstance(error, OverrideParseException):
        return str(words.unreadable(str(error.override)))
    text = one_line(error)
    if isinstance(error, ConfigCompositionException):
        if match := re.match(r"Could not override '([^']+)'", text):
            path, dot, _ = str(match[1]).rpartition(".")
            node: DictConfig | None = getattr(error.__cause__, "parent_node", None)
            beside_it = [f"{path}{dot}{key}" for key in map(str, node or ()) if key != "_target_"]
            path, _, key = str(match[1]).rpartition(".")
            launchers = options.names("hydra/launcher") if path == "hydra.launcher" else ()
            able = [f"hydra/launcher={name}" for name in launchers if key in options.load(f"hydra/launcher/{name}")]
            hint = f"add {' or '.join(able)}" if able else "robustfl-bench --cfg hydra shows all"
            return f"no setting {match[1]!r}{near(match[1], beside_it)}; {hint}"
        if error.__cause__ is not None:
            text = f"{text}: {one_line(error.__cause__)}"
    return text.split(" object_type=")[0].split(" full_key: ")[0].removeprefix("Error merging override ")
