"""The runs that overrides and the presets of conf/experiment make, trained in this process, and the config that Hydra
would compose."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import hydra
import torch
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from torch import Tensor

from robustfl_bench.interfaces import Aggregator, ServerView
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts import datasets
from robustfl_bench.parts.datasets.base import Data
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.runner.experiment.plan import Request, plan
from robustfl_bench.train.evaluation import Record
from robustfl_bench.train.federation import Federation, federation_of
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.rounds import initial_state

Job = dict[str, str]


def planned(*overrides: str) -> Request:
    """The run of these overrides, as far as it can be made without data."""
    return plan(compose.resolve(overrides).config)


def federation(*overrides: str, data: Data | None = None, **parts: Any) -> Federation:
    """The clients and the server of the run of these overrides, with ``data`` and ``parts`` in place of its own."""
    run = planned(*overrides)
    data = data or datasets.load(run.parts.dataset, None, torch.device("cpu"))
    return federation_of(run.settings, replace(run.parts, **parts), data)


small = partial(federation, "model.hidden=[8]")


def trained(f: Federation) -> tuple[State, list[Record]]:
    """The state after the last round, and the records of all rounds."""
    states, rows = zip(*run(f, initial_state(f), metrics=METRICS), strict=True)
    return states[-1], [row for row in rows if row is not None]


@dataclass(frozen=True)
class Recording(Aggregator):
    """The mean; keeps the matrix of every round."""

    exempt = MappingProxyType({"memory": "takes notes"})

    given: list[Tensor] = field(default_factory=list)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.given.append(updates.matrix.clone())
        return Aggregate(updates.matrix.mean(dim=0))


def of(paper: str) -> tuple[Callable[..., list[Job]], Callable[..., Request]]:
    """Two functions for the presets of a paper, by name: the swept overrides of every run, and the plan of one."""

    @cache
    def jobs(name: str, *overrides: str) -> list[Job]:
        fixed = [f"+experiment={paper}/{name}", *overrides]
        return [_job(run, fixed) for run in compose.sweep(fixed)]

    def planned_of(name: str, job: Job, *overrides: str) -> Request:
        return planned(f"+experiment={paper}/{name}", *overrides, *(f"{key}={value}" for key, value in job.items()))

    return jobs, planned_of


def _job(run: tuple[str, ...] | list[str], fixed: list[str]) -> Job:
    return dict(item.split("=", 1) for item in run if item not in fixed)


def by_hydra(*overrides: str) -> dict[str, Any]:
    """The config of these overrides as Hydra composes it, without interpolations."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = hydra.compose("config", list(overrides))
    whole: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return {key: value or None if key in GROUPS else value for key, value in whole.items()}
