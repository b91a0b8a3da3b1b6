"""Rules as functions of updates, behind their pre-aggregation, and the updates on which they are measured: drawn with a
stated spread, or taken from a round of a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone, ServerView
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.train.parts import check_clients

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
    from robustfl_bench.train.federation import federation_of

    planned = plan({**config, "device": "cpu"})
    s = planned.settings
    parts = replace(planned.parts, aggregator=mean, pre_aggregation=None, protocol=None)
    return federation_of(s, parts, datasets.load(parts.dataset, s.data_dir, choose_device(s.device)))


def _trained(federation: Any, rounds: int) -> Iterator[Any]:
    """The state after each of these rounds."""
    from robustfl_bench.train.rounds import initial_state, step

    state = initial_state(federation)
    for _ in range(rounds):
        state, _round = step(federation, state)
        yield state


class AttackersFirst(Questions):
    """Questions whose updates begin with those of the attackers.

    Rules break ties by order, and kappa is the worst over all orders: attackers who come first win ties.
    """

    def split(self) -> list[Questions]:
        return [AttackersFirst(some.honest, some.rows, some.counts) for some in super().split()]

    def matrix(self, number: int) -> Tensor:
        if self._storage is None:
            self._storage = self.honest.matrix.new_empty(self.n, self.d)
            self._storage[self.attackers :] = self.honest.matrix
        self._storage[: self.attackers] = self.rows[number]
        return self._storage

    def joint_grams(self, vectors: Tensor) -> Tensor:
        order = torch.arange(self.n + len(vectors))
        order[: self.n] = order[: self.n].roll(self.attackers)
        return super().joint_grams(vectors)[:, order[:, None], order]

    def combine_alike(self, weights: Tensor) -> Tensor:
        return super().combine_alike(weights.roll(-self.attackers))


@dataclass(frozen=True)
class Rule:
    """The aggregate of n updates, computed in float32 with the same random draws each time.

    Raises ConfigError, when it is made, if n are too few.
    """

    aggregator: Aggregator
    preparation: PreAggregation | None
    server: MakeServer
    n: int

    def __post_init__(self) -> None:
        check_clients(self.aggregator, self.preparation, self.n)

    def __call__(self, updates: np.ndarray) -> np.ndarray:
        """The aggregate (d,) of updates (n, d)."""
        rows, view = Updates(torch.from_numpy(updates).float()), self._view(updates.shape[1])
        if self.preparation is not None:
            rows, view.clients = self.preparation(rows, np.random.default_rng(0)), None
        vector: Tensor = self.aggregator(rows, view).vector
        return vector.double().numpy()

    def against(self, honest: np.ndarray, attacks: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """The aggregates (k, d) of the rows (n - h, d) of each of k attacks, followed by the honest updates (h, d).

        A rule without pre-aggregation answers attacks together, by ``aggregate_many``, and so up to rounding: those
        whose attackers all send the same, and the others.
        """
        answers, shared = np.empty((len(attacks), honest.shape[1])), Updates(torch.from_numpy(honest).float())
        alike = np.array([bool((rows == rows[:1]).all()) for rows in attacks])
        for members, sent in ((np.flatnonzero(alike), 1), (np.flatnonzero(~alike), self.n - len(honest))):
            if self.preparation is None and len(members) > 1:
                candidates = torch.from_numpy(np.stack([attacks[i][:sent] for i in members.tolist()])).float()
                answers[members] = self._together(shared, candidates)
                continue
            for i in members.tolist():
                answers[i] = self(np.concatenate([attacks[i], honest]))
        return answers

    def _together(self, honest: Updates, candidates: Tensor) -> np.ndarray:
        """The aggregates (k, d) for candidates (k, 1 or n - h, d)."""
        questions = AttackersFirst(honest, candidates, honest.counts.new_ones(self.n))
        many = self.aggregator.aggregate_many
        return torch.cat([many(some, lambda: self._view(honest.d)) for some in questions.split()]).double().numpy()

    def _view(self, d: int) -> ServerView:
        view = self.server(self.aggregator, self.n, d)
        view.rng = np.random.default_rng(0)
        return view
