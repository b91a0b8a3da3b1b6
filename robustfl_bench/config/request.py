"""From the words of a command line to the config of a run, composed by Hydra, and its request."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, QuotedString
from omegaconf import DictConfig, OmegaConf

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import compose, options, outside, resolvers, sources, stored, words
from robustfl_bench.config.options import CONF
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.engine.settings import Schema


@dataclass(frozen=True)
class Call:
    """The request for a run: the chosen option of each group, the overrides, and the program name before them."""

    choices: Mapping[str, str] = field(default_factory=dict)
    overrides: Sequence[str] = ()
    program: Sequence[str] = ("robustfl-bench",)

    @property
    def command(self) -> str:
        """The command, quoted for a shell."""
        return shlex.join([*self.program, *self.overrides])


ConfigStore.instance().store(name="settings", node=Schema)
sources.register()


def composed(overrides: Sequence[str]) -> tuple[DictConfig, Call]:
    """The config of these overrides and its request, checked as the command checks them. Raises the errors that
    ``explain`` explains.
    """
    check_choices(overrides)
    resolvers.register()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", overrides=stored.expand(overrides, sources.know), return_hydra_config=True)
    refuse_sweep(cfg.hydra)
    return parted(cfg)


def parted(cfg: DictConfig) -> tuple[DictConfig, Call]:
    """The config of the run, and its request, from a config with Hydra's own settings."""
    config = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    return config, call_of(cfg.hydra, config)


def check_choices(arguments: Sequence[str]) -> None:
    """Raise ConfigError when a config group has a former name, or gets a value that is no option's name."""
    words.check_names(arguments)
    overrides = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    for override in OverridesParser.create().parse_overrides(overrides):
        group = override.key_or_group
        if (group not in GROUPS and group.split("/")[0] not in compose.PRESETS) or override.is_delete():
            continue
        value = override.value()
        names: list[Any] = value.list if isinstance(value, ChoiceSweep) else [value]
        for name in names:
            several = isinstance(name, list) and name and override.package is None and options.has_places(group)
            if not all(isinstance(one, str | QuotedString) for one in (name if several else [name])):
                hint = f"; for none write {group}=none" if name == [] and options.exists(group, "none") else ""
                given = override.get_value_element_as_str()
                raise ConfigError(f"{group} takes the name of an option, got {given}{hint}")
            if several:
                options.check_several(group, [getattr(one, "text", one) for one in name])


def call_of(runtime: Any, cfg: DictConfig) -> Call:
    """The request for a run that Hydra composed, as a user would type it."""
    choices = {group: _named(runtime.runtime.choices.get(group), cfg[group]) for group in GROUPS}
    named = {group: options.label(group, choice) for group, choice in choices.items()}
    return call(named, cfg, runtime.overrides.task, config_dirs(runtime))


def call(choices: Mapping[str, str], cfg: Mapping[str, Any], task: Sequence[str], config_dirs: Sequence[str]) -> Call:
    """The request for a run, from the labels of its groups' options, its config, overrides and ``config_dirs``."""
    written = [item for item in map(as_typed, task) if item.split("=")[0].lstrip("+") not in stored.FORMS]
    program = ["robustfl-bench", *(word for folder in config_dirs for word in ("--config-dir", folder))]
    return Call(choices, [*([cfg["origin"]] if cfg["origin"] else []), *written], program)


def config_dirs(runtime: Any) -> tuple[str, ...]:
    """The folders of ``--config-dir``."""
    return tuple(source.path for source in runtime.runtime.config_sources if source.provider == "command-line")


def as_typed(override: str) -> str:
    """An override without the backslash that Hydra's sweeper puts into the name of a class."""
    key, _, _ = override.lstrip("+").partition("=")
    return override.replace("\\:", ":") if key.partition("@")[0] in GROUPS else override


def _named(choice: Any, part: Any) -> str:
    """The option of a part; the name of its class if it was configured without an option."""
    if choice or not part:
        return str(choice or "none")
    return outside.label_of(part["_target_"]) if "_target_" in part else f"[{','.join(part)}]"


def refuse_sweep(runtime: Any) -> None:
    """Raise ConfigError when a preset would sweep a setting without -m."""
    task = list(runtime.overrides.task)
    given = {item.split("=")[0] for item in task}
    if set(runtime.sweeper.params or {}) - given:
        runs = len(compose.sweep(task))
        keys = ", ".join(str(key) for key in runtime.sweeper.params if key not in given)
        raise ConfigError(f"this preset sweeps {keys}: {runs} runs; add -m to make them all, or set these for one run")
