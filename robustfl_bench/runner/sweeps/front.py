"""Hydra in front of sweeps: it reads their overrides, starts their sweeper and launcher, and shows its own settings."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.base.console import note_once
from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.runner.config import options, request, words
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.runner.experiment.execute import execute
from robustfl_bench.runner.processes.shards import members
from robustfl_bench.runner.sweeps import plugins, sources
from robustfl_bench.runner.sweeps.launch import config_dir_of


def main(arguments: Sequence[str]) -> None:
    """Let Hydra obey the arguments of a command. Raises Incomplete, ConfigError and the errors of a sweep's runs."""
    plugins.register()
    sources.register()
    sys.argv[1:] = arguments
    with _raising():
        try:
            hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(_job)()
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            raise ConfigError(_explained(error)) from error


def _job(cfg: DictConfig) -> float:
    """Execute a run of a sweep for a launcher that is not of ``plugins``."""
    runtime = HydraConfig.get()
    config, call = request.of_cell(runtime.overrides.task, config_dir_of(runtime))
    with members(config, call) as train:
        return execute(config, call, train, note_once())


@contextmanager
def _raising() -> Iterator[None]:
    """Hydra raises errors within the context, instead of printing them."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before


def _explained(error: Exception) -> str:
    """An error of Hydra in one line."""
    if isinstance(error, yaml.YAMLError):
        return f"cannot read {options.not_yaml(error)}"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return f"unknown {group} {name!r}{near(name, error.options)}; there are: {', '.join(error.options)}"
    if isinstance(error, OverrideParseException):
        return str(words.unreadable(str(error.override)))
    text = " ".join(str(error).split())
    if isinstance(error, ConfigCompositionException):
        if match := re.search(r"Could not override '([^']+)'", text):
            path, dot, _ = str(match[1]).rpartition(".")
            node: DictConfig | None = getattr(error.__cause__, "parent_node", None)
            beside = [f"{path}{dot}{key}" for key in map(str, node or ()) if key != "_target_"]
            return f"no setting {match[1]!r}{near(match[1], beside)}; robustfl-bench --cfg hydra shows all"
        if error.__cause__ is not None:
            text = f"{text}: {' '.join(str(error.__cause__).split())}"
    return text.split(" object_type=")[0].split(" full_key: ")[0].removeprefix("Error merging override ")
