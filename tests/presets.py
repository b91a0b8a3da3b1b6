"""The runs that overrides and the presets of conf/experiment make: in a millisecond, and as Hydra makes them.

``test_composition.py`` and ``test_configs.py`` compare the two, so that other tests can do without Hydra.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from hydra import compose as by_hydra
from hydra import initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from robustfl_bench.config import compose, request
from robustfl_bench.config.options import CONF
from robustfl_bench.experiment.plan import Plan, plan

assert request  # registers the typed settings with hydra

Job = dict[str, str]


def planned(*overrides: str) -> Plan:
    """The run of these overrides, as far as it can be made without data."""
    return plan(compose.resolve(overrides).config)


def of(paper: str) -> tuple[Callable[..., list[Job]], Callable[..., Plan]]:
    """Two functions for the presets of a paper, by name: the swept overrides of every run, and the plan of one."""

    @cache
    def jobs(name: str, *overrides: str) -> list[Job]:
        fixed = [f"+experiment={paper}/{name}", *overrides]
        return [_job(run, fixed) for run in compose.sweep(fixed)]

    def planned_of(name: str, job: Job, *overrides: str) -> Plan:
        return planned(f"+experiment={paper}/{name}", *overrides, *(f"{key}={value}" for key, value in job.items()))

    return jobs, planned_of


def _job(run: tuple[str, ...] | list[str], fixed: list[str]) -> Job:
    return dict(item.split("=", 1) for item in run if item not in fixed)


# --- by Hydra --------------------------------------------------------------------------------------------------------


def composed(*overrides: str) -> DictConfig:
    """The config of these overrides, as Hydra composes it."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return by_hydra("config", list(overrides))


@cache
def swept(*overrides: str) -> list[list[str]]:
    """The overrides of every run of ``robustfl-bench -m OVERRIDES``: those that are fixed, then the swept ones."""
    given = list(zip(overrides, OverridesParser.create().parse_overrides([*overrides]), strict=True))
    fixed = [text for text, parsed in given if not parsed.is_sweep_override()]
    varied = [f"{key}={value}" for key, value in axes(*fixed).items()]
    varied += [text for text, parsed in given if parsed.is_sweep_override()]
    (batch,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(varied), max_batch_size=None)
    return [[*fixed, *job] for job in batch]


def axes(*overrides: str) -> dict[str, Any]:
    """The settings that the presets among the overrides sweep, with their values."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = by_hydra("config", list(overrides), return_hydra_config=True)
    params = OmegaConf.to_container(cfg.hydra.sweeper.params or OmegaConf.create(), resolve=True)
    assert isinstance(params, dict)
    return {str(key): value for key, value in params.items()}
