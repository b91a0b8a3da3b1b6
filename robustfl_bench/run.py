"""The one loop: local updates, attack, pre-aggregation, aggregation, server step, evaluation.

It names no rule, attack or data set, and knows no configuration, disk or clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from robustfl_bench import seeding
from robustfl_bench.interfaces import (
    Aggregator,
    Attack,
    AttackView,
    ConfigError,
    Corruption,
    Data,
    Model,
    Partition,
    PreAggregation,
    Schedule,
    ServerView,
)
from robustfl_bench.local_updates import LocalUpdate
from robustfl_bench.metrics import recall_per_class
from robustfl_bench.network import Network
from robustfl_bench.population import Population, Samples
from robustfl_bench.server_data import ServerData
from robustfl_bench.settings import Settings
from robustfl_bench.updates import Aggregate, Updates

Record = dict[str, float]


@dataclass(frozen=True)
class Experiment:
    """Everything a run is made of, except the data."""

    settings: Settings
    corruption: Corruption | None
    partition: Partition
    model: Model
    attack: Attack
    aggregator: Aggregator
    local_update: LocalUpdate
    pre_aggregation: PreAggregation | None
    server_data: ServerData
    schedule: Schedule


@dataclass(frozen=True)
class State:
    """All that a run carries from one round to the next: it is the checkpoint."""

    round: int
    params: Tensor
    previous: Tensor | None = None


class Federation:
    """The clients, the server and the network of one experiment on its data; whatever is not read is not made."""

    def __init__(self, experiment: Experiment, data: Data, num_classes: int) -> None:
        s = experiment.settings
        self.experiment, self.data, self.num_classes = experiment, data, num_classes
        self.network = Network(experiment.model, tuple(data.train_x.shape[1:]), num_classes, s.seed, data.vectors)
        self.network.to(data.train_x.device)
        parts = experiment.partition(self.labels, s.num_clients, seeding.generator(s.seed, "partition"))
        byzantine = np.arange(s.num_clients, s.total_clients)
        if s.byzantine_placement == "replace" and s.num_byzantine:
            # One order of the clients: with more attackers, the earlier ones stay Byzantine.
            byzantine = np.sort(seeding.generator(s.seed, "byzantine").permutation(s.num_clients)[: s.num_byzantine])
        self.honest_ids = np.setdiff1d(np.arange(s.num_clients), byzantine)
        self.byzantine_ids = byzantine
        self.parts = parts
        self.honest = self.clients(self.honest_ids)

    def clients(self, ids: np.ndarray) -> Population:
        """The chosen clients with their own samples: feature skew changes them, poison has not yet."""
        population = Population(self.data.train_x, self.data.train_y, [self.parts[i] for i in ids])
        return self.corrupted(population, self.experiment.corruption, "corruption", ids.tolist())

    def corrupted(
        self, population: Population, corruption: Corruption | None, stream: str, ids: list[int]
    ) -> Population:
        """The population after each of its clients' images went through ``corruption``; their own stream is named by
        their id."""
        if corruption is None:
            return population
        scaling = self.data.scaling
        if scaling is None:
            raise ConfigError("corruptions change images and this data set has none; use corruption=none")
        for position, i in enumerate(ids):
            own, rng = population.slice(position), seeding.generator(self.experiment.settings.seed, stream, i)
            population.x[own] = scaling.inputs(corruption(scaling.pixels(population.x[own]), rng))
        return population

    @cached_property
    def labels(self) -> np.ndarray:
        return self.data.train_y.cpu().numpy()

    @cached_property
    def label_counts(self) -> Tensor:
        return self.honest.label_counts(self.num_classes)

    @cached_property
    def byzantine(self) -> Population:
        """The Byzantine clients' own samples, poisoned."""
        s, attack = self.experiment.settings, self.experiment.attack
        if s.byzantine_placement == "add":
            raise ConfigError(
                f"attack {type(attack).__name__} trains on the Byzantine clients' own data, but added clients "
                "hold none: set byzantine_placement=replace"
            )
        own = self.clients(self.byzantine_ids)
        xs, ys = [], []
        for position, i in enumerate(self.byzantine_ids.tolist()):
            x, y = own.x[own.slice(position)], own.y[own.slice(position)]
            x, y = attack.poison(x, y, self.num_classes, seeding.generator(s.seed, "poison", i))
            xs.append(x)
            ys.append(y)
        ends = np.cumsum([0] + [len(y) for y in ys])
        return Population(torch.cat(xs), torch.cat(ys), [np.arange(a, b) for a, b in pairwise(ends)])

    @cached_property
    def server(self) -> Population:
        """The server's samples, one "client" per class."""
        s = self.experiment.settings
        rng = seeding.generator(s.seed, "server data")
        server_data = self.experiment.server_data
        chosen = server_data(self.labels, self.num_classes, rng)
        classes = list(range(self.num_classes))
        population = Population(self.data.train_x, self.data.train_y, chosen)
        return self.corrupted(population, server_data.corruption, "server corruption", classes)

    @cached_property
    def server_together(self) -> Population:
        return Population(self.server.x, self.server.y, [np.arange(len(self.server.y))])

    def train(
        self, population: Population, clients: list[int], ids: list[int], stream: str, state: State, out: Tensor
    ) -> Updates:
        """The updates of the chosen clients from the model of ``state``, written into the rows of ``out`` (n, d)."""
        s = self.experiment.settings
        samples = Samples(population, clients, ids, s.seed, stream, state.round, s.batch_size)
        lr = self.experiment.schedule(s.lr, state.round)
        losses = self.experiment.local_update(self.network, state.params, samples, lr, out)
        return Updates(out, torch.from_numpy(samples.sizes).to(out.device, torch.float64), losses)

    @cached_property
    def storage(self) -> Tensor:
        """Room for the updates of a round, reused by all of them, (clients per round, d)."""
        return self.rows(self.experiment.settings.clients_per_round)

    def rows(self, n: int) -> Tensor:
        """Uninitialised room for n updates."""
        return torch.empty(n, self.network.dim, device=self.data.train_x.device)

    def participants(self, round: int) -> tuple[list[int], list[int]]:
        """Positions of this round's clients among the honest and among the Byzantine ones.

        Every client draws a number of its own, the smallest take part: the choice among the honest clients
        does not depend on what the attack or the rule are.
        """
        s = self.experiment.settings
        if s.clients_per_round >= s.total_clients:
            return list(range(len(self.honest_ids))), list(range(len(self.byzantine_ids)))
        draws = seeding.generator(s.seed, "participation", round).random(s.num_clients)
        added = s.total_clients - s.num_clients
        extra = seeding.generator(s.seed, "participation of added clients", round).random(added)
        chosen = np.argsort(np.concatenate([draws, extra]), kind="stable")[: s.clients_per_round]
        return np.flatnonzero(np.isin(self.honest_ids, chosen)).tolist(), np.flatnonzero(
            np.isin(self.byzantine_ids, chosen)
        ).tolist()


def initial_state(federation: Federation) -> State:
    """The state before the first round."""
    return State(0, federation.network.initial)


def run(federation: Federation, state: State) -> Iterator[tuple[State, Record | None]]:
    """Go on from ``state`` to the last round; yield every round's new state, with a record if it is evaluated."""
    s, schedule = federation.experiment.settings, federation.experiment.schedule
    while state.round < s.rounds:
        lr = schedule(s.lr, state.round)
        present, attackers = federation.participants(state.round)
        honest = _honest_updates(federation, present, state)
        non_finite = _zero_non_finite(honest.matrix)
        updates = _attacked(federation, honest, present, attackers, state, lr)
        non_finite += _zero_non_finite(updates.matrix[honest.n :])
        aggregate = _aggregate(federation, updates, state, lr)
        step = federation.experiment.local_update.step_size(lr)
        state = State(state.round + 1, state.params - step * aggregate.vector, aggregate.vector)
        record = None
        if state.round % s.eval_every == 0 or state.round == s.rounds:
            record = {"round": state.round, "lr": lr}
            if honest.losses is not None:
                record["train_loss"] = float(honest.losses.mean())
            record |= _test_metrics(federation, state.params)
            record |= _weight_metrics(aggregate, honest.n)
            record["non_finite_updates"] = non_finite
        yield state, record


def _honest_updates(federation: Federation, present: list[int], state: State) -> Updates:
    ids = federation.honest_ids[present].tolist()
    return federation.train(federation.honest, present, ids, "batches", state, federation.storage[: len(present)])


def _attacked(
    federation: Federation, honest: Updates, present: list[int], attackers: list[int], state: State, lr: float
) -> Updates:
    """The honest updates with the Byzantine clients' rows below them."""
    if not attackers:
        return honest
    ids = federation.byzantine_ids[attackers].tolist()
    storage = federation.storage[: honest.n + len(attackers)]
    if federation.experiment.settings.byzantine_placement == "replace":
        counts = torch.tensor([len(federation.parts[i]) for i in ids]).to(honest.counts)
    else:  # added clients hold no data: they claim as much as an honest client has
        counts = honest.counts.mean().expand(len(attackers))

    def joined(crafted: Tensor) -> Updates:
        return honest.append(crafted.expand(len(attackers), -1), counts, storage)

    def train_own() -> Tensor:
        rows = federation.rows(len(attackers))
        return federation.train(federation.byzantine, attackers, ids, "batches", state, rows).matrix

    view = AttackView(
        honest=honest,
        num_byzantine=len(attackers),
        round=state.round,
        lr=lr,
        params=state.params,
        label_counts=federation.label_counts[present],
        rng=seeding.generator(federation.experiment.settings.seed, "attack", state.round),
        train_own=train_own,
        aggregate=lambda crafted: _aggregate(federation, joined(crafted), state, lr),
    )
    return joined(federation.experiment.attack.craft(view))


def _aggregate(federation: Federation, updates: Updates, state: State, lr: float) -> Aggregate:
    s, experiment, network = federation.experiment.settings, federation.experiment, federation.network

    def train_per_class() -> Tensor:
        classes = list(range(federation.num_classes))
        rows = federation.rows(len(classes))
        return federation.train(federation.server, classes, classes, "server batches", state, rows).matrix

    def train_together() -> Tensor:
        return federation.train(federation.server_together, [0], [0], "server", state, federation.rows(1)).matrix[0]

    server = ServerView(
        params=state.params,
        step_size=experiment.local_update.step_size(lr),
        round=state.round,
        rng=seeding.generator(s.seed, "rule", state.round),
        previous=state.previous,
        train_per_class=train_per_class,
        train_together=train_together,
        loss=lambda params: network.losses(params, federation.server.x, federation.server.y),
        gradient=lambda params: network.gradient(params, federation.server.x, federation.server.y),
    )
    if experiment.pre_aggregation is not None:
        updates = experiment.pre_aggregation(updates, seeding.generator(s.seed, "pre-aggregation", state.round))
    return experiment.aggregator(updates, server)


def _zero_non_finite(matrix: Tensor) -> int:
    """Replace rows with a non-finite entry by zeros, in place: a rule never sees them. Returns how many there were."""
    # The sum of a row is finite unless an entry is not (or it overflows: look closer); it reads the matrix once.
    suspects = (~matrix.sum(dim=1).isfinite()).nonzero().squeeze(1)
    rows = suspects[(~matrix[suspects].isfinite()).any(dim=1)]
    matrix[rows] = 0
    return len(rows)


def _test_metrics(federation: Federation, params: Tensor) -> Record:
    loss, confusion = federation.network.evaluate(params, federation.data.test_x, federation.data.test_y)
    record = {"test_loss": loss, "test_accuracy": float(confusion.diagonal().sum() / confusion.sum())}
    return record | {f"recall_{i}": float(recall) for i, recall in enumerate(recall_per_class(confusion))}


def _weight_metrics(aggregate: Aggregate, num_honest: int) -> Record:
    """The weight on Byzantine clients, how many of them were let in, and how many honest clients were not."""
    record: Record = {}
    accepted = aggregate.accepted
    if aggregate.weights is not None:
        record["byzantine_weight"] = float(aggregate.weights[num_honest:].sum())
        accepted = aggregate.weights != 0 if accepted is None else accepted
    if accepted is not None:
        record["byzantine_accepted"] = int(accepted[num_honest:].sum())
        record["honest_dropped"] = int((~accepted[:num_honest]).sum())
    return record
