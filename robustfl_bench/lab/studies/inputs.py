"""The updates on which rules are measured: drawn with a stated spread, or taken from a round of a run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.numerics.updates import Aggregate
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone, ServerView

MakeServer = Callable[[Aggregator, int, int], ServerView]
"""Makes the server that a rule sees, for n clients and d parameters."""


@dataclass(frozen=True)
class Inputs:
    """Updates (n, d) of n clients, all of them honest, and what the server knows in that round."""

    name: str
    matrix: Tensor
    server: MakeServer


def gaussian(n: int, d: int = 20, mean: float = 1.0, spread: float = 1.0, seed: int = 0) -> Inputs:
    """Normal updates around a vector of length ``mean``, with ``spread`` as root mean square distance from it."""
    rng = seeding.generator(seed, "resilience", "gaussian")
    centre = rng.normal(size=d)
    rows = mean * centre / np.linalg.norm(centre) + spread / np.sqrt(d) * rng.normal(size=(n, d))
    name = f"normal, d = {d}, mean of length {mean:g}, spread {spread:g}, seed {seed}"
    return Inputs(name, torch.from_numpy(rows).float(), without_data)


def without_data(rule: Aggregator, n: int, d: int) -> ServerView:
    """A server that knows n clients and nothing else."""
    needed = "samples of the server, or losses that clients report: take the updates of a round (--inputs round)"
    return ServerAlone(
        rule,
        lambda _: needed,
        params=torch.zeros(d),
        step_size=1.0,
        round=0,
        rng=np.random.default_rng(0),
        previous=None,
        clients=torch.arange(n),
        counts=torch.ones(n, dtype=torch.float64),
        memory={},
    )


@dataclass(frozen=True)
class _Spy(Aggregator):
    """The mean, which stores its input."""

    exempt = MappingProxyType({"memory": "takes notes"})

    seen: dict[str, Any]

    def aggregate(self, updates: Any, server: ServerView) -> Any:
        self.seen.update(updates=updates.matrix.clone(), counts=updates.counts.clone(), server=server)
        return Aggregate(updates.mean)


def of_round(config: Mapping[str, Any], rounds: int = 0) -> Inputs:
    """The updates of a run's clients, all honest, after ``rounds`` rounds of plain averaging.

    ``config`` is a whole one (``compose.resolve(overrides).config``) of a run without attack and with one model.
    Raises ConfigError and DataError.
    """
    seen = dict[str, Any]()
    federation = _averaging(config, _Spy(seen))
    for _ in _trained(federation, rounds + 1):
        pass
    parts, seed = federation.parts, federation.settings.seed
    name = f"{parts.dataset.name}, {type(parts.partition).__name__}, after {rounds} rounds, seed {seed}"
    return Inputs(name, seen["updates"], lambda rule, n, d: replace(seen["server"]))


def median_length(config: Mapping[str, Any]) -> float:
    """The median, over clients and rounds, of the length of an update in a run of plain averaging, all clients honest.

    ``config`` is a whole one, of a run without attack and with one model. Raises ConfigError and DataError.
    """
    seen = dict[str, Any]()
    federation = _averaging(config, _Spy(seen))
    rounds = federation.settings.rounds
    return float(torch.cat([seen["updates"].norm(dim=1) for _ in _trained(federation, rounds)]).median())


def _averaging(config: Mapping[str, Any], mean: _Spy) -> Any:
    """The federation of a run, on the CPU, with this rule in the place of its own."""
    from robustfl_bench.parts import datasets
    from robustfl_bench.runner.experiment.machine import choose_device
    from robustfl_bench.runner.experiment.plan import plan
    from robustfl_bench.train.federation import Federation

    planned = plan({**config, "device": "cpu"})
    s = planned.settings
    parts = replace(planned.parts, aggregator=mean, pre_aggregation=None, protocol=None)
    return Federation(s, parts, datasets.load(parts.dataset, s.data_dir, choose_device(s.device)))


def _trained(federation: Any, rounds: int) -> Iterator[Any]:
    """The state after each of these rounds."""
    from robustfl_bench.train.rounds import initial_state, step

    state = initial_state(federation)
    for _ in range(rounds):
        state, _round = step(federation, state)
        yield state
