"""The command ``robustfl-bench``: one run, or a sweep with ``-m``; every error in one line."""

import errno
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, QuotedString
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.config import class_options, options, outside, presets, resolvers, stored
from robustfl_bench.config.options import CONF
from robustfl_bench.config.parts import GROUPS
from robustfl_bench.config.settings import SCALARS, Schema
from robustfl_bench.console import exit_code, note, say
from robustfl_bench.errors import ConfigError, DataError, Interrupted, NotReady, near
from robustfl_bench.experiment.execute import Call, RunFailed, execute, record_infeasible
from robustfl_bench.experiment.plan import InfeasibleError, plan
from robustfl_bench.results.store import RunLocked

_EXPECTED = (HydraException, OmegaConfBaseException, ConfigError, DataError, Interrupted, RunFailed, RunLocked, OSError)

_ASKED: dict[str, str | None] = {}  # HYDRA_FULL_ERROR as the user set it, before main sets it for hydra
_SAID = set[str]()  # notes of this command

ConfigStore.instance().store(name="settings", node=Schema)
resolvers.register()
class_options.register()


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _job(cfg: DictConfig) -> float:
    """One run; in a sweep, what cannot be run is reported and recorded, and the other runs go on."""
    runtime = HydraConfig.get()
    sweep = runtime.mode == RunMode.MULTIRUN
    try:
        call = _call(runtime, cfg)
        if not sweep:
            _refuse_sweep(runtime)
        try:
            return execute(cfg, call, note=_note_once)
        except InfeasibleError as error:
            if sweep:
                record_infeasible(error, call)
            raise
    except Exception as error:
        if not sweep or isinstance(error, NotReady):
            if _ASKED.get("HYDRA_FULL_ERROR") == "1":
                raise
            sys.exit(report(error))  # past hydra, which would print a line of its own
        where = f"[{shlex.join(map(_written, runtime.overrides.task))}]"
        if isinstance(error, InfeasibleError):
            say(f"infeasible: {error}  {where}")
        elif isinstance(error, RunLocked):
            say(f"skipped: {error}")
        else:
            say(f"failed: {explain(error)}  {where}")
            raise  # to hydra, which keeps it while the other runs go on
    return float("nan")


def _note_once(line: str) -> None:
    """Say in a sweep but once what holds for many of its runs."""
    if line not in _SAID:
        note(line)
        _SAID.add(line)


def compose(overrides: Sequence[str]) -> tuple[DictConfig, Call]:
    """The config that these overrides make, and how it was asked for; checked as the command checks it.

    Raises what ``explain`` explains.
    """
    _check_choices(overrides)
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", overrides=stored.expand(overrides, _store), return_hydra_config=True)
    _refuse_sweep(cfg.hydra)
    config = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    plan(config)
    return config, _call(cfg.hydra, config)


def _check_choices(arguments: Sequence[str]) -> None:
    """Raise ConfigError when a config group is given something else than the names of options."""
    overrides = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    for override in OverridesParser.create().parse_overrides(overrides):
        group = override.key_or_group
        if (group not in GROUPS and group.split("/")[0] not in presets.PRESETS) or override.is_delete():
            continue
        value = override.value()
        names: list[Any] = value.list if isinstance(value, ChoiceSweep) else [value]
        for name in names:
            several = isinstance(name, list) and name and override.package is None and options.has_places(group)
            if not all(isinstance(one, str | QuotedString) for one in (name if several else [name])):
                raise ConfigError(f"{group} takes the name of an option, got {override.get_value_element_as_str()}")
            if several:
                options.check_several(group, [getattr(one, "text", one) for one in name])


def _call(runtime: Any, cfg: DictConfig) -> Call:
    """How a run was asked for, as a user would ask for it again."""
    task = map(_written, runtime.overrides.task)
    written = [item for item in task if item.split("=")[0].lstrip("+") not in stored.FORMS]
    overrides = [*([cfg.origin] if cfg.origin else []), *written]
    choices = {group: _named(runtime.runtime.choices.get(group), cfg[group]) for group in GROUPS}
    named = {group: options.label(group, choice) for group, choice in choices.items()}
    folders = [source.path for source in runtime.runtime.config_sources if source.provider == "command-line"]
    program = ["robustfl-bench", *(word for folder in folders for word in ("--config-dir", folder))]
    return Call(named, overrides, program)


def _written(override: str) -> str:
    """An override without the backslash that Hydra's sweeper puts into the name of a class."""
    key, _, _ = override.lstrip("+").partition("=")
    return override.replace("\\:", ":") if key.partition("@")[0] in GROUPS else override


def _named(choice: Any, part: Any) -> str:
    """The option of a part; of one that was configured without an option, the name of its class."""
    if choice or not part:
        return str(choice or "none")
    return outside.label_of(part["_target_"]) if "_target_" in part else f"[{','.join(part)}]"


def _store(group: str, name: str, content: Mapping[str, Any]) -> None:
    """Make a stored config known to hydra as the preset ``group=name``."""
    ConfigStore.instance().store(group=group, name=name, node=dict(content), package="_global_")


def _refuse_sweep(runtime: Any) -> None:
    """Raise ConfigError when a preset sweeps settings that the command line leaves to it, but there is no -m."""
    task = list(runtime.overrides.task)
    given = {item.split("=")[0] for item in task}
    if set(runtime.sweeper.params or {}) - given:
        runs = len(presets.sweep(task))
        keys = ", ".join(str(key) for key in runtime.sweeper.params if key not in given)
        raise ConfigError(f"this preset sweeps {keys}: {runs} runs; add -m to make them all, or set these for one run")


def main() -> None:
    """Console entry point: exit code 0, 2 for bad configuration, 3 for missing or corrupt data, 1 for anything else.

    With HYDRA_FULL_ERROR=1 in the environment errors show their tracebacks.
    """
    asked = os.environ.get("HYDRA_FULL_ERROR")
    _ASKED["HYDRA_FULL_ERROR"] = asked
    os.environ["HYDRA_FULL_ERROR"] = "1"  # hydra hands errors over instead of printing them
    try:
        _SAID.clear()
        _check_choices(sys.argv[1:])
        expanded = stored.expand(sys.argv[1:], _store)
        sys.argv[1:] = sorted(expanded, key=lambda word: word not in ("-m", "--multirun"))  # hydra wants it first
        _job()
    except BrokenPipeError:
        raise  # ``entry`` ends every command whose reader has gone
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from the last checkpoint")
        sys.exit(130)
    except Exception as error:
        if asked == "1":
            raise
        sys.exit(report(error))
    finally:
        if asked is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = asked


def report(error: Exception) -> int:
    """Print the error as one line; returns its exit code."""
    say(f"error: {explain(error)}")
    return 2 if isinstance(error, HydraException | OmegaConfBaseException) else exit_code(error)


def explain(error: Exception) -> str:
    """One line: what was wrong, what was expected, what to do."""
    if isinstance(error, MissingConfigException) and error.options is not None and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.partition("/")
        known = options.names(group) if group in presets.PRESETS else error.options
        return f"unknown {group} {name!r}{near(name, known)}; there are: {', '.join(known)}"
    if not isinstance(error, _EXPECTED):
        line = " ".join(str(error).split())
        return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"
    if isinstance(error, OSError) and error.filename is not None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "free space for it" if full else "make its folder writable"
        return f"cannot write {error.filename!s}: {error.strerror}; {remedy}, or choose another with results_dir=..."
    text = " ".join(str(error).split())
    if isinstance(error, ConfigCompositionException):
        if match := re.search(r"Could not override '([^']+)'", text):
            if match[1].split("/")[0] in presets.PRESETS:
                return f"{match[1]} is a group of presets: write +{match[1]}=..."
            if match[1] in (known := _settings()):
                group = match[1].split(".")[0]
                return f"the chosen option of {group} has no setting {match[1]!r}; take another {group}=... with it"
            path, dot, _ = match[1].rpartition(".")
            beside = [f"{path}{dot}{key}" for key in _beside(error.__cause__)]
            meant = near(match[1], beside) or near(match[1], known)
            return f"no setting {match[1]!r}{meant}; robustfl-bench --cfg job shows all"
        if match := re.search(r"Could not delete from config. '([^']+)' does not exist", text):
            return f"no setting {match[1]!r} to delete{near(match[1], _settings())}"
        if error.__cause__ is not None and not isinstance(error, MissingConfigException):
            text = f"{text}: {' '.join(str(error.__cause__).split())}"
    return text.split(" object_type=")[0].split(" full_key: ")[0].removeprefix("Error merging override ")


def _beside(cause: BaseException | None) -> list[str]:
    """The settings among which OmegaConf did not find one."""
    node = getattr(cause, "parent_node", None)
    return [str(key) for key in node if key != "_target_"] if isinstance(node, DictConfig) else []


def _settings() -> list[str]:
    """All keys of the default configuration that the command line can set."""
    keys = {*SCALARS, *GROUPS}
    for group in GROUPS:
        for name in options.names(group):
            keys |= {
                f"{group}.{key}" for key, _ in options.flatten(options.chosen(group, name)) if "_target_" not in key
            }
    return sorted(keys)


if __name__ == "__main__":
    main()
