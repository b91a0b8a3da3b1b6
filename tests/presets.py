"""The runs that overrides and the presets of conf/experiment make, and the config that Hydra would compose."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import hydra
import torch
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from robustfl_bench import datasets
from robustfl_bench.config import compose
from robustfl_bench.config.options import CONF
from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.experiment.plan import Plan, plan
from robustfl_bench.sweeps import plugins, sources

Job = dict[str, str]


def planned(*overrides: str) -> Plan:
    """The run of these overrides, as far as it can be made without data."""
    return plan(compose.resolve(overrides).config)


def federation(*overrides: str, **parts: Any) -> Federation:
    """The clients and the server of the run of these overrides, with ``parts`` in place of its own."""
    run = planned(*overrides)
    data = datasets.load(run.parts.dataset, None, torch.device("cpu"))
    return Federation(run.settings, replace(run.parts, **parts), data)


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


def by_hydra(*overrides: str) -> dict[str, Any]:
    """The config of these overrides as Hydra composes it, without interpolations."""
    plugins.register()
    sources.register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = hydra.compose("config", list(overrides))
    whole: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return {key: value or None if key in GROUPS else value for key, value in whole.items()}
