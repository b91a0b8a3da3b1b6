"""Who takes part and what they hold: the clients and their samples, the server's samples, the network."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from robustfl_bench import seeding
from robustfl_bench.config.settings import Settings
from robustfl_bench.engine.model_choice import Choices
from robustfl_bench.engine.network import Network
from robustfl_bench.engine.samples import Population, Samples
from robustfl_bench.interfaces import (
    Aggregator,
    Attack,
    Augmentation,
    ChoiceView,
    Clustering,
    Communication,
    ConfigError,
    Corruption,
    Data,
    Model,
    Partition,
    PreAggregation,
    Scaling,
    Schedule,
    Shard,
)
from robustfl_bench.local_updates import LocalUpdate
from robustfl_bench.server_data.per_class import PerClass
from robustfl_bench.updates import Updates


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
    server_data: PerClass
    schedule: Schedule
    clustering: Clustering | None = None
    corruption: Corruption | None = None
    augmentation: Augmentation | None = None
    communication: Communication | None = None


@dataclass(frozen=True)
class State:
    """All that a run carries from one round to the next: it is the checkpoint.

    ``params`` (k, d) are the models, one unless there is a clustering, and ``previous`` (k, d) their last aggregates.
    ``groups`` (clients,) says who trains which of them, where that is fixed. ``memory`` is what the rule remembers of
    each model, ``local`` what the local updates of honest and of Byzantine clients do; the latter is changed in place.
    ``weights`` (N,) is what the clients counted for in the last round, where there is one model.
    """

    round: int
    params: Tensor
    previous: Tensor | None = None
    groups: Tensor | None = None
    memory: tuple[dict[str, Tensor], ...] = ()
    local: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    weights: Tensor | None = None

    def of(self, model: int) -> "State":
        """What concerns one model: ``params`` and ``previous`` are vectors (d,)."""
        previous = None if self.previous is None else self.previous[model]
        return State(self.round, self.params[model], previous, None, self.memory[model : model + 1], self.local)


@dataclass(frozen=True)
class Group:
    """Who trains a model in a round: positions among the honest and among the Byzantine clients."""

    honest: list[int]
    attackers: list[int]

    def __len__(self) -> int:
        return len(self.honest) + len(self.attackers)


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
            order = _in_turn(order, self.clusters)
            byzantine = np.sort(order[: self._num_byzantine(order)])
        self.honest_ids = np.setdiff1d(np.arange(s.num_clients), byzantine)
        self.byzantine_ids = byzantine
        if experiment.corruption is not None:
            self._require_scaling()

    def _num_byzantine(self, order: np.ndarray) -> int:
        """How many clients of this order are Byzantine: counted, or by the data that they hold."""
        s = self.experiment.settings
        if s.byzantine_share_by == "clients":
            return s.num_byzantine
        held = np.cumsum([len(self.parts[i]) for i in order[:-1]])  # one stays honest
        wanted = s.num_byzantine / s.num_clients * sum(map(len, self.parts))
        return 1 + int(np.abs(held - wanted).argmin())

    @cached_property
    def honest(self) -> Population:
        """The honest clients' own samples."""
        return self.clients(self.honest_ids)

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
        scaling = self._require_scaling()
        for position, i in enumerate(ids):
            own, rng = population.slice(position), seeding.generator(self.experiment.settings.seed, stream, i)
            population.x[own] = scaling.inputs(corruption(scaling.pixels(population.x[own]), rng))
        return population

    def _require_scaling(self) -> Scaling:
        if self.data.scaling is None:
            raise ConfigError("corruptions change images and this data set has none; use corruption=none")
        return self.data.scaling

    @property
    def names(self) -> list[str]:
        """Every client by its number, and whether it is Byzantine."""
        byzantine = set(self.byzantine_ids.tolist())
        return [f"{'byzantine' if i in byzantine else 'client'}_{i}" for i in range(len(self.counts))]

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
        return self.poisoned(self.byzantine_ids)

    def poisoned(self, ids: np.ndarray) -> Population:
        """The chosen Byzantine clients with their own samples, poisoned."""
        s, attack = self.experiment.settings, self.experiment.attack
        if s.byzantine_placement == "add":
            raise ConfigError(
                f"attack {type(attack).__name__} trains on the Byzantine clients' own data, but added clients "
                "hold none: set byzantine_placement=replace"
            )
        own = self.clients(ids)
        xs, ys = [], []
        for position, i in enumerate(ids.tolist()):
            rows, rng = own.slice(position), seeding.generator(s.seed, "poison", i)
            x, y = attack.poison(Shard(own.x[rows], own.y[rows], self.num_classes, self.data.scaling, rng))
            xs.append(x)
            ys.append(y)
        ends = np.cumsum([0] + [len(y) for y in ys])
        return Population(torch.cat(xs), torch.cat(ys), [np.arange(a, b) for a, b in pairwise(ends)])

    @cached_property
    def goal(self) -> tuple[Tensor, Tensor] | None:
        """The test samples of the attackers' goal, with the classes they want."""
        s = self.experiment.settings
        if not s.num_byzantine:
            return None
        rng = seeding.generator(s.seed, "goal")
        return self.experiment.attack.goal(
            Shard(self.data.test_x, self.data.test_y, self.num_classes, self.data.scaling, rng)
        )

    @cached_property
    def counts(self) -> Tensor:
        """The sample counts of all clients, (N,) float64: added clients claim as many as a client has on average."""
        own = torch.tensor([len(part) for part in self.parts], dtype=torch.float64)
        added = own.mean().expand(self.experiment.settings.total_clients - len(own))
        return torch.cat([own, added]).to(self.data.train_x.device)

    def reported_losses(self, params: Tensor, clients: Tensor) -> Tensor:
        """The mean losses (m,) float64 with a model (d,) that ``clients`` (m,) report of their training samples.

        Added clients hold none: they know the mean of the honest clients' losses. All Byzantine clients may lie."""
        honest, byzantine = (
            np.flatnonzero(np.isin(ids, clients.cpu())) for ids in (self.honest_ids, self.byzantine_ids)
        )
        losses = torch.zeros(self.experiment.settings.total_clients, dtype=torch.float64, device=params.device)
        if len(honest):
            losses[self.honest_ids[honest]] = self._client_losses(self.honest, honest.tolist(), params[None])[:, 0]
        if len(byzantine):
            told = losses[self.honest_ids[honest]]
            if self.experiment.settings.byzantine_placement == "replace":
                own = self._client_losses(self.byzantine, byzantine.tolist(), params[None])[:, 0]
            else:
                own = told.mean().expand(len(byzantine))
            losses[self.byzantine_ids[byzantine]] = self.experiment.attack.report(own, told)
        return losses[clients]

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
        self,
        population: Population,
        clients: list[int],
        ids: list[int],
        stream: str,
        state: State,
        out: Tensor,
        memory: dict[str, Tensor] | None = None,
    ) -> Updates:
        """The updates of the chosen clients from the model of ``state``, written into the rows of ``out`` (n, d)."""
        s = self.experiment.settings
        kept, augmentation = {} if memory is None else memory, self.experiment.augmentation
        samples = Samples(population, clients, ids, s.seed, stream, state.round, s.batch_size, kept, augmentation)
        lr = self.experiment.schedule(s.lr, state.round)
        losses = self._local_update(samples, state.params, lr, out) if clients else out.new_zeros(0).double()
        return Updates(out, torch.from_numpy(samples.sizes).to(out.device, torch.float64), losses)

    def _local_update(self, samples: Samples, params: Tensor, lr: float, out: Tensor) -> Tensor:
        """Fill ``out`` (n, d) with the updates of the clients of ``samples``; returns their losses (n,)."""
        update, network = self.experiment.local_update, self.network
        apart = self.experiment.communication is not None and self.experiment.communication.apart
        if not network.stochastic and not apart:
            return update(network, params, samples, lr, out)
        losses = []
        for client, identity, row in zip(samples.clients, samples.ids, out.split(1), strict=True):
            # Every client has a stream of its own, whoever else takes part, and memory that it shares with nobody
            noise = seeding.integer(samples.seed, "noise", samples.stream, samples.round, identity)
            with network.noise(noise) if network.stochastic else nullcontext():
                own = torch.empty_like(row) if apart else row
                losses.append(update(network, params, replace(samples, clients=[client], ids=[identity]), lr, own))
                if apart:
                    row.copy_(own)
        return torch.cat(losses)

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
        honest = self._best(params, present)
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

    @cached_property
    def _best(self) -> Callable[[Tensor, Sequence[int]], Tensor]:
        """Maps models (k, d) and honest clients to their models of least loss (n,)."""
        batch = self.honest.batch(range(len(self.honest)))
        slopes = self.network.slopes(batch)

        def losses(params: Tensor, clients: Sequence[int]) -> Tensor:
            return self._client_losses(self.honest, clients, params)

        if slopes is None:
            return lambda params, clients: losses(params, clients).argmin(dim=1)
        sizes = torch.stack([y.double().square().mean().sqrt() for _, y in batch.clients()])
        return Choices(losses, slopes, sizes)

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
