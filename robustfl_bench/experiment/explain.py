"""Errors in words: the one line that a command prints."""

import errno
import re

import yaml
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError, DataError, Interrupted, exit_code, near
from robustfl_bench.base.trees import flatten
from robustfl_bench.config import compose, options
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.engine.settings import SCALARS
from robustfl_bench.experiment.execute import RunFailed
from robustfl_bench.store.folders import RunLocked

_EXPECTED = (HydraException, OmegaConfBaseException, ConfigError, DataError, Interrupted, RunFailed, RunLocked, OSError)


def report(error: Exception) -> int:
    """Print the error as one line; returns its exit code."""
    say(f"error: {explain(error)}")
    return exit_code(error)


def explain(error: Exception) -> str:
    """One line: what was wrong, what was expected, what to do."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.partition("/")
        known = options.names(group) if error.options is None or group in compose.PRESETS else error.options
        if known:
            return f"unknown {group} {name!r}{near(name, known)}; there are: {', '.join(known)}"
    if isinstance(error, OverrideParseException):
        advice = "settings are KEY=VALUE without spaces around =; quote values with special characters"
        return f"""cannot read {error.override!r}: {advice}: "key='a b'\""""
    if isinstance(error, yaml.YAMLError):
        return options.not_yaml(error)
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
            if match[1].split("/")[0] in compose.PRESETS:
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
    """The settings beside the place where OmegaConf found none."""
    node = getattr(cause, "parent_node", None)
    return [str(key) for key in node if key != "_target_"] if isinstance(node, DictConfig) else []


def _settings() -> list[str]:
    """All keys of the default configuration that the command line can set."""
    keys = {*SCALARS, *GROUPS}
    for group in GROUPS:
        for name in options.names(group):
            keys |= {f"{group}.{key}" for key, _ in flatten(options.chosen(group, name)) if "_target_" not in key}
    return sorted(keys)
