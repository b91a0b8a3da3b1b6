"""What the presets of conf/experiment make, as the sweeper and the command make it."""

from collections.abc import Callable
from functools import cache

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from robustfl_bench import cli
from robustfl_bench.config.options import CONF
from robustfl_bench.experiment.plan import Plan, plan

assert cli  # registers the typed settings with hydra


@cache
def swept(*overrides: str) -> list[list[str]]:
    """The overrides of every run of ``robustfl-bench -m OVERRIDES``: those that are fixed, then the swept ones."""
    given = list(zip(overrides, OverridesParser.create().parse_overrides([*overrides]), strict=True))
    fixed = [text for text, parsed in given if not parsed.is_sweep_override()]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config", fixed, return_hydra_config=True)
    params = OmegaConf.to_container(cfg.hydra.sweeper.params or OmegaConf.create(), resolve=True)
    assert isinstance(params, dict)
    varied = [f"{key}={value}" for key, value in params.items()]
    varied += [text for text, parsed in given if parsed.is_sweep_override()]
    (batch,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(varied), max_batch_size=None)
    return [[*fixed, *job] for job in batch]


@cache
def jobs(preset: str, *overrides: str) -> list[dict[str, str]]:
    """The swept overrides of every run of a preset, ``paper/name``."""
    fixed = [f"+experiment={preset}", *overrides]
    return [dict(item.split("=", 1) for item in job[len(fixed) :]) for job in swept(*fixed)]


def planned(preset: str, job: dict[str, str], *overrides: str) -> Plan:
    """One of these runs, as far as it can be made without data."""
    arguments = [f"+experiment={preset}", *overrides, *(f"{key}={value}" for key, value in job.items())]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return plan(compose("config", arguments))


def single(*overrides: str) -> Plan:
    """The run of these overrides, as far as it can be made without data."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return plan(compose("config", list(overrides)))


def of(paper: str) -> tuple[Callable[..., list[dict[str, str]]], Callable[..., Plan]]:
    """``jobs`` and ``planned`` for the presets of one paper, which then go by their names alone."""

    def jobs_of(name: str, *overrides: str) -> list[dict[str, str]]:
        return jobs(f"{paper}/{name}", *overrides)

    def planned_of(name: str, job: dict[str, str], *overrides: str) -> Plan:
        return planned(f"{paper}/{name}", job, *overrides)

    return jobs_of, planned_of
