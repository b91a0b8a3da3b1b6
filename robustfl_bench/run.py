"""The one loop: for every model local updates, attack, pre-aggregation, aggregation, server step; then evaluation.

It names no rule, attack or data set, and knows no configuration, disk or clock.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    ChoiceView,
    Clustering,
    ConfigError,
    Corruption,
    Data,
    Model,
    Partition,
    PreAggregation,
    Schedule,
    ServerView,
    StartView,
)
from robustfl_bench.local_updates import LocalUpdate
from robustfl_bench.metrics import cluster_recovery, matched_distance, nearest_distance, recall_per_class
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
    partition: Partition
    model: Model
    attack: Attack
    aggregator: Aggregator
    local_update: LocalUpdate
    pre_aggregation: PreAggregation | None
    server_data: ServerData
    schedule: Schedule
    clustering: Clustering | None = None
    corruption: Corruption | None = None


@dataclass(frozen=True)
class State:
    """All that a run carries from one round to the next: it is the checkpoint.

    ``params`` (k, d) are the models, one unless there is a clustering, and ``previous`` (k, d) their last aggregates.
    ``groups`` (clients,) says who trains which of them, where that is fixed.
    """

    round: int
    params: Tensor
    previous: Tensor | None = None
    groups: Tensor | None = None

    def of(self, model: int) -> "State":
        """What concerns one model: ``params`` and ``previous`` are vectors (d,)."""
        return State(self.round, self.params[model], None if self.previous is None else self.previous[model])


@dataclass(frozen=True)
class Group:
    """Who trains a model in a round: positions among the honest and among the Byzantine clients."""

    honest: list[int]
    attackers: list[int]

    def __len__(self) -> int:
        return len(self.honest) + len(self.attackers)


@dataclass(frozen=True)
class Trained:
    """A model (d,) after a round, with the honest clients' losses and what the rule made of the group's updates.

    ``aggregate`` is None for a model that stayed as it was, as its group was empty or too small for the rule.
    """

    params: Tensor
    losses: Tensor | None
    aggregate: Aggregate | None
    num_honest: int
    non_finite: int


class Federation:
    """The clients, the server and the network of one experiment on its data; whatever is not read is not made."""

    def __init__(self, experiment: Experiment, data: Data, num_classes: int) -> None:
        s = experiment.settings
        self.experiment, self.data, self.num_classes = experiment, data, num_classes
        shape, regression = tuple(data.train_x.shape[1:]), data.train_y.is_floating_point()
        self.network = Network(experiment.model, shape, num_classes, s.seed, data.vectors, regression)
        self.network.to(data.train_x.device)
        by = self.owners if getattr(experiment.partition, "by_owner", False) else self.labels
        parts = experiment.partition(by, s.num_clients, seeding.generator(s.seed, "partition"))
        self.parts = parts
        byzantine = np.arange(s.num_clients, s.total_clients)
        if s.byzantine_placement == "replace" and s.num_byzantine:
            # One order of the clients: with more attackers, the earlier ones stay Byzantine.
            order = seeding.generator(s.seed, "byzantine").permutation(s.num_clients)
            byzantine = np.sort(_in_turn(order, self.clusters)[: s.num_byzantine])
        self.honest_ids = np.setdiff1d(np.arange(s.num_clients), byzantine)
        self.byzantine_ids = byzantine
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
        """The class of every training sample, (N,)."""
        if self.network.regression:
            raise ConfigError(
                "this data set has numbers to predict, no classes: set partition=natural, and take rules and attacks "
                "that need neither labels nor server data"
            )
        return self.data.train_y.cpu().numpy()

    @cached_property
    def owners(self) -> np.ndarray:
        """The data set's own client of every training sample, (N,)."""
        if self.data.owners is None:
            raise ConfigError("this data set has no clients of its own: take another partition than natural")
        return self.data.owners.cpu().numpy()

    @cached_property
    def clusters(self) -> np.ndarray | None:
        """The true cluster of every client with data, (num_clients,): the one of most of its samples."""
        if self.data.clusters is None:
            return None
        clusters = self.data.clusters.cpu().numpy()
        return np.array([np.bincount(clusters[part]).argmax() for part in self.parts])

    @cached_property
    def label_counts(self) -> Tensor:
        """The honest clients' samples per class, (h, c); no columns where there are no classes."""
        if self.network.regression:
            return torch.zeros(len(self.honest), 0, dtype=torch.int64)
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
        train = self.experiment.local_update
        losses = train(self.network, state.params, samples, lr, out) if clients else out.new_zeros(0).double()
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

    def groups(self, state: State) -> list[Group]:
        """Who trains which model in this round."""
        present, attackers = self.participants(state.round)
        clustering, seed = self.experiment.clustering, self.experiment.settings.seed
        if clustering is None:
            return [Group(present, attackers)]
        if state.groups is not None:
            choice = state.groups.cpu()[np.concatenate([self.honest_ids[present], self.byzantine_ids[attackers]])]
        else:
            rng = seeding.generator(seed, "models that nobody chose", state.round)
            choice = clustering.fill(self._choice(present, attackers, state.params).cpu(), rng)
        who = np.array([*present, *attackers])
        honest = np.arange(len(who)) < len(present)
        mine = [choice.numpy() == model for model in range(len(state.params))]
        return [Group(who[m & honest].tolist(), who[m & ~honest].tolist()) for m in mine]

    def _choice(self, present: list[int], attackers: list[int], params: Tensor) -> Tensor:
        """The models (n,) that the round's clients choose among ``params`` (k, d), honest clients first."""
        honest = self._client_losses(self.honest, present, params).argmin(dim=1)
        if not attackers:
            return honest
        holding = self.experiment.settings.byzantine_placement == "replace"
        view = ChoiceView(
            params=params,
            honest=honest,
            num_byzantine=len(attackers),
            own_losses=(lambda models: self._client_losses(self.byzantine, attackers, models)) if holding else None,
        )
        return torch.cat([honest, self.experiment.attack.choose(view)])

    def _client_losses(self, population: Population, clients: Sequence[int], params: Tensor) -> Tensor:
        losses = self.network.client_losses(params, population.batch(clients))
        return losses.nan_to_num(nan=math.inf, posinf=math.inf)  # nobody chooses a model that diverged

    def samples(self) -> list[tuple[Tensor, Tensor]]:
        """The samples of every client, those of Byzantine clients poisoned."""
        own = dict(zip(self.honest_ids, self.honest.batch(range(len(self.honest))).clients(), strict=True))
        if len(self.byzantine_ids):
            poisoned = self.byzantine.batch(range(len(self.byzantine))).clients()
            own |= dict(zip(self.byzantine_ids, poisoned, strict=True))
        return [own[i] for i in sorted(own)]

    @cached_property
    def test_parts(self) -> list[tuple[Tensor, Tensor]]:
        """The test samples of every true cluster; all together where there are none."""
        data = self.data
        if data.test_clusters is None:
            return [(data.test_x, data.test_y)]
        members = [data.test_clusters == cluster for cluster in data.test_clusters.unique()]
        return [(data.test_x[rows], data.test_y[rows]) for rows in members]

    def users(self, groups: Sequence[Group]) -> np.ndarray:
        """How many honest clients of each true cluster train each model, (K, k); K = 1 where there are no clusters."""
        counts = np.zeros((len(self.test_parts), len(groups)), dtype=np.int64)
        for model, group in enumerate(groups):
            ids = self.honest_ids[group.honest]
            np.add.at(counts[:, model], np.zeros_like(ids) if self.clusters is None else self.clusters[ids], 1)
        return counts


def _in_turn(order: np.ndarray, clusters: np.ndarray | None) -> np.ndarray:
    """The clients in this order, but going round the true clusters: the first few are as even a sample as can be."""
    if clusters is None:
        return order
    earlier = [np.count_nonzero(clusters[order[:i]] == clusters[client]) for i, client in enumerate(order)]
    return order[np.argsort(earlier, kind="stable")]


def initial_state(federation: Federation) -> State:
    """The state before the first round."""
    clustering, clusters = federation.experiment.clustering, federation.clusters
    if clustering is None:
        return State(0, federation.network.initial[None])
    if clusters is not None:
        clusters = np.where(np.isin(np.arange(len(clusters)), federation.honest_ids), clusters, -1)
    view = StartView(
        seed=federation.experiment.settings.seed,
        rng=seeding.generator,
        initial=federation.network.another_initial,
        truth=federation.data.truth,
        clients=federation.samples,
        clusters=clusters,
        module=federation.network.module,
    )
    params, groups = clustering.start(view)
    return State(0, params, groups=groups)


def run(federation: Federation, state: State) -> Iterator[tuple[State, Record | None]]:
    """Go on from ``state`` to the last round; yield every round's new state, with a record if it is evaluated."""
    s, schedule = federation.experiment.settings, federation.experiment.schedule
    while state.round < s.rounds:
        lr = schedule(s.lr, state.round)
        groups = federation.groups(state)
        models = [_trained(federation, state.of(model), group, lr) for model, group in enumerate(groups)]
        params, previous = torch.stack([model.params for model in models]), _last_aggregates(state, models)
        state = replace(state, round=state.round + 1, params=params, previous=previous)
        record = None
        if state.round % s.eval_every == 0 or state.round == s.rounds:
            record = {"round": state.round, "lr": lr}
            losses = [model.losses for model in models if model.losses is not None]
            if losses:
                record["train_loss"] = float(torch.cat(losses).mean())
            record |= _test_metrics(federation, state.params, groups)
            record |= _weight_metrics(models)
            record["non_finite_updates"] = sum(model.non_finite for model in models)
            if len(models) > 1:
                record["empty_clusters"] = sum(not len(group) for group in groups)
                record["untrained_clusters"] = sum(model.aggregate is None for model in models)
        yield state, record


def _trained(federation: Federation, state: State, group: Group, lr: float) -> Trained:
    """One round of one model, by those who train it."""
    clustering, step_size = federation.experiment.clustering, federation.experiment.local_update.step_size(lr)
    honest = _honest_updates(federation, group.honest, state)
    non_finite = _zero_non_finite(honest.matrix)
    if clustering is not None and not _enough(federation, len(group)):
        return Trained(state.params, honest.losses, None, honest.n, non_finite)
    updates = _attacked(federation, honest, group.honest, group.attackers, state, lr)
    non_finite += _zero_non_finite(updates.matrix[honest.n :])
    aggregate = _aggregate(federation, updates, state, lr)
    if clustering is None:
        params = state.params - step_size * aggregate.vector
    else:
        share = len(group) / federation.experiment.settings.clients_per_round
        params = clustering.step(state.params, aggregate.vector, step_size, share)
    return Trained(params, honest.losses, aggregate, honest.n, non_finite)


def _enough(federation: Federation, n: int) -> bool:
    """Whether the rule can work with a group of n clients: one that cannot leaves the model as it is."""
    rule = federation.experiment.aggregator
    if n and federation.experiment.pre_aggregation is None and hasattr(rule, "check"):
        try:
            rule.check(n)
        except ConfigError:
            return False
    return n > 0


def _last_aggregates(state: State, models: Sequence[Trained]) -> Tensor:
    """The aggregates (k, d) of this round; of a model that was not trained, the one before, or zero."""
    before = torch.zeros_like(state.params) if state.previous is None else state.previous
    pairs = list(zip(models, before, strict=True))
    if all(model.aggregate is None for model in models):
        raise ConfigError("every group of clients is too small for the rule; take fewer clusters, or a lower f")
    return torch.stack([old if model.aggregate is None else model.aggregate.vector for model, old in pairs])


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

    def train_own(start: Tensor) -> Tensor:
        rows, population = federation.rows(len(attackers)), federation.byzantine
        return federation.train(population, attackers, ids, "batches", replace(state, params=start), rows).matrix

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
    attack = federation.experiment.attack
    return joined(attack.craft(view) if honest.n or attack.alone else view.own)


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
    fine = matrix.sum(dim=1).isfinite()
    if fine.all():
        return 0
    suspects = (~fine).nonzero().squeeze(1)
    rows = suspects[(~matrix[suspects].isfinite()).any(dim=1)]
    matrix[rows] = 0
    return len(rows)


def _test_metrics(federation: Federation, params: Tensor, groups: Sequence[Group]) -> Record:
    """Each true cluster is tested with the model that most of its honest clients trained in this round."""
    users, parts, truth = federation.users(groups), federation.test_parts, federation.data.truth
    serving = np.where(users.any(axis=1), users.argmax(axis=1), users.sum(axis=0).argmax())
    results = [federation.network.evaluate(params[j], *part) for j, part in zip(serving, parts, strict=True)]
    sizes = np.array([len(y) for _, y in parts])
    record = {"test_loss": float(np.dot(sizes / sizes.sum(), [loss for loss, _ in results]))}
    confusions = [confusion for _, confusion in results if confusion is not None]
    if confusions:
        confusion = np.sum(confusions, axis=0)
        record["test_accuracy"] = float(confusion.diagonal().sum() / confusion.sum())
        record |= {f"recall_{i}": float(recall) for i, recall in enumerate(recall_per_class(confusion))}
        if len(parts) > 1:
            record |= {f"accuracy_cluster_{i}": float(c.trace() / c.sum()) for i, c in enumerate(confusions)}
    if len(parts) > 1 and len(groups) > 1:
        record["cluster_recovery"] = cluster_recovery(users)
    if truth is not None and truth.shape[1] == params.shape[1]:
        record["distance"] = matched_distance(params.cpu(), truth.cpu())
        record["distance_nearest"] = nearest_distance(params.cpu(), truth.cpu())
    return record


def _weight_metrics(models: Sequence[Trained]) -> Record:
    """The weight on Byzantine clients (mean over models), how many were let in, and how many honest ones were not."""
    record: Record = {}
    aggregates = [(model.aggregate, model.num_honest) for model in models if model.aggregate is not None]
    weights = [float(a.weights[honest:].sum()) for a, honest in aggregates if a.weights is not None]
    if weights:
        record["byzantine_weight"] = sum(weights) / len(weights)
    accepted = [(mask, honest) for a, honest in aggregates if (mask := _accepted(a)) is not None]
    if accepted:
        record["byzantine_accepted"] = sum(int(mask[honest:].sum()) for mask, honest in accepted)
        record["honest_dropped"] = sum(int((~mask[:honest]).sum()) for mask, honest in accepted)
    return record


def _accepted(aggregate: Aggregate) -> Tensor | None:
    """Whom the rule let in, (n,) bool; None where it does not tell."""
    if aggregate.accepted is None and aggregate.weights is not None:
        return aggregate.weights != 0
    return aggregate.accepted
