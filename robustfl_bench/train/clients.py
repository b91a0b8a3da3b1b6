"""The clients and their samples, poisoned or not, the server's samples, and the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.read_only import called
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.parts.attacks.base import Attack, Shard
from robustfl_bench.parts.corruptions.base import Corruption
from robustfl_bench.parts.datasets.base import Data, Scaling
from robustfl_bench.train.contract import dealt
from robustfl_bench.train.parts import Parts
from robustfl_bench.train.settings import Settings


class Unshared:
    """Samples that a run has for itself."""

    def divided(self, clients: Clients, data: Data) -> tuple[Data, Data | None]:
        """The data of clients and server, and those held out for validation."""
        return divided(data, clients.settings, clients.parts.partition.by_owner)

    def honest(self, clients: Clients) -> Population:
        """The honest clients' own samples."""
        return clients.unpoisoned(clients.honest_ids)


class Clients:
    """The clients of one run, their data, and the server's data. Everything is built lazily, on first access.

    ``honest_ids`` and ``byzantine_ids`` are the numbers of the honest and the Byzantine clients; ``shards`` are the
    sample indices of every client with data. ``data`` excludes the samples ``held_out`` for validation, which neither
    clients nor the server use; ``shelf`` is where the largest of these samples are.
    """

    def __init__(self, settings: Settings, parts: Parts, data: Data, shelf: Unshared | None = None) -> None:
        self.settings, self.parts, self._shelf = settings, parts, shelf or Unshared()
        self.data, self.held_out = self._shelf.divided(self, data)
        data = self.data
        self.num_classes, s = parts.dataset.num_classes, settings
        shape, regression = tuple(data.train_x.shape[1:]), data.train_y.is_floating_point()
        self.network = Network(parts.model, shape, self.num_classes, s.seed, data.vectors, regression)
        self.network.to(data.train_x.device)
        self.network.check(data.train_x[:2])
        by = self.owners if parts.partition.by_owner else self.labels
        found = parts.partition(by, s.num_clients, seeding.generator(s.seed, "partition"))
        self.shards = dealt(parts.partition, found, s.num_clients, len(data.train_x))
        byzantine = np.arange(s.num_clients, s.total_clients)
        if s.byzantine_placement == "replace" and s.num_byzantine:
            # One order of the clients, so that raising the number of attackers keeps the earlier ones Byzantine.
            order = seeding.generator(s.seed, "byzantine").permutation(s.num_clients)
            order = _in_turn(order, self.clusters)
            byzantine = np.sort(order[: self._num_byzantine(order)])
        self.honest_ids = np.setdiff1d(np.arange(s.num_clients), byzantine)
        self.byzantine_ids = byzantine
        if parts.corruption is not None:
            self._require_scaling()

    def _num_byzantine(self, order: np.ndarray) -> int:
        """The number of Byzantine clients in this order, by count or by their share of the data."""
        s = self.settings
        if s.byzantine_share_by == "clients":
            return s.num_byzantine
        held = np.cumsum([len(self.shards[i]) for i in order[:-1]])  # one client stays honest
        wanted = s.num_byzantine / s.num_clients * sum(map(len, self.shards))
        return 1 + int(np.abs(held - wanted).argmin())

    @cached_property
    def honest(self) -> Population:
        """The honest clients' own samples."""
        return self._shelf.honest(self)

    def unpoisoned(self, ids: np.ndarray) -> Population:
        """The chosen clients with their own samples, with feature skew but not poisoned."""
        population = Population(self.data.train_x, self.data.train_y, [self.shards[i] for i in ids])
        return self.corrupted(population, self.parts.corruption, "corruption", ids.tolist())

    def corrupted(
        self, population: Population, corruption: Corruption | None, stream: str, ids: list[int]
    ) -> Population:
        """The population with each client's images changed by ``corruption``, with a random stream per client id."""
        if corruption is None:
            return population
        scaling = self._require_scaling()
        for position, i in enumerate(ids):
            own, rng = population.slice(position), seeding.generator(self.settings.seed, stream, i)
            population.x[own] = scaling.inputs(corruption(scaling.pixels(population.x[own]), rng))
        return population

    def _require_scaling(self) -> Scaling:
        if self.data.scaling is None:
            raise ConfigError("corruptions change images and this data set has none; use corruption=none")
        return self.data.scaling

    @property
    def names(self) -> list[str]:
        """The names of all clients: ``client_I`` or ``byzantine_I``."""
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
        """The client of every training sample as given by the data set, (N,)."""
        if self.data.owners is None:
            raise ConfigError("this data set has no clients of its own: take another partition than natural")
        return self.data.owners.cpu().numpy()

    @cached_property
    def clusters(self) -> np.ndarray | None:
        """The true cluster of every client with data, (num_clients,): that of most of its samples."""
        if self.data.clusters is None:
            return None
        clusters = self.data.clusters.cpu().numpy()
        return np.array([np.bincount(clusters[part]).argmax() for part in self.shards])

    @cached_property
    def byzantine_clean(self) -> Population:
        """The Byzantine clients' unpoisoned samples, for rounds in which the attack pauses."""
        return self.unpoisoned(self.byzantine_ids)

    @cached_property
    def poisonings(self) -> dict[Attack, Population]:
        """The Byzantine clients' samples as the attacks of a plan poison them, kept once they are made."""
        return {}

    @cached_property
    def supposed(self) -> dict[str, Population]:
        """The clients that attackers suppose, by the name of their draws, kept once they are made."""
        return {}

    def poisoned(self, ids: np.ndarray, attack: Attack) -> Population:
        """The chosen Byzantine clients with their own samples, poisoned by an attack."""
        s = self.settings
        if s.byzantine_placement == "add":
            raise ConfigError(
                f"{called(attack)} trains on the Byzantine clients' own data, but added clients "
                "hold none: set byzantine_placement=replace"
            )
        own = self.unpoisoned(ids)
        xs, ys = [], []
        for position, i in enumerate(ids.tolist()):
            rows, rng = own.slice(position), seeding.generator(s.seed, "poison", i)
            place = int(np.flatnonzero(self.byzantine_ids == i)[0])
            x, y = attack.poison(Shard(own.x[rows], own.y[rows], self.num_classes, self.data.scaling, rng, place))
            xs.append(x)
            ys.append(y)
        ends = np.cumsum([0] + [len(y) for y in ys])
        return Population(torch.cat(xs), torch.cat(ys), [np.arange(a, b) for a, b in pairwise(ends)])

    @cached_property
    def goal(self) -> tuple[Tensor, Tensor] | None:
        """The test samples of the attackers' goal, with the target classes."""
        s = self.settings
        if not s.num_byzantine:
            return None
        rng = seeding.generator(s.seed, "goal")
        return self.parts.attack.goal(
            Shard(self.data.test_x, self.data.test_y, self.num_classes, self.data.scaling, rng)
        )

    @cached_property
    def counts(self) -> Tensor:
        """The sample counts of all clients, (N,) float64; added clients report the average count."""
        own = torch.tensor([len(part) for part in self.shards], dtype=torch.float64)
        added = own.mean().expand(self.settings.total_clients - len(own))
        return torch.cat([own, added]).to(self.data.train_x.device)

    @cached_property
    def server(self) -> Population:
        """The server's samples, one "client" per class."""
        s = self.settings
        rng = seeding.generator(s.seed, "server data")
        server_data = self.parts.server_data
        chosen = server_data(self.labels, self.num_classes, rng)
        classes = list(range(self.num_classes))
        population = Population(self.data.train_x, self.data.train_y, chosen)
        return self.corrupted(population, server_data.corruption, "server corruption", classes)

    @cached_property
    def server_together(self) -> Population:
        return Population(self.server.x, self.server.y, [np.arange(len(self.server.y))])

    def losses(self, population: Population, clients: Sequence[int], params: Tensor) -> Tensor:
        """Mean losses (n, k) float64 of models ``params`` (k, d) on the samples of the chosen clients of a
        population."""
        losses = self.network.client_losses(params, population.batch(clients))
        return losses.nan_to_num(nan=math.inf, posinf=math.inf)  # no client chooses a model that diverged

    @cached_property
    def test_parts(self) -> list[tuple[Tensor, Tensor]]:
        """The test samples of every true cluster; without clusters, all in one part."""
        return self._by_cluster(self.data.test_x, self.data.test_y, self.data.test_clusters)

    @cached_property
    def validation_parts(self) -> list[tuple[Tensor, Tensor]]:
        """The samples held out for validation, as in ``test_parts``; empty if none are held out."""
        if self.held_out is None:
            return []
        parts = self._by_cluster(self.held_out.train_x, self.held_out.train_y, self.held_out.clusters)
        if not all(len(y) for _, y in parts):
            share = self.settings.validation_share
            raise ConfigError(f"validation_share={share} holds out no sample of a cluster; take a larger share")
        return parts

    def _by_cluster(self, x: Tensor, y: Tensor, clusters: Tensor | None) -> list[tuple[Tensor, Tensor]]:
        if clusters is None or self.data.test_clusters is None:
            return [(x, y)]
        members = [clusters == cluster for cluster in self.data.test_clusters.unique()]
        return [(x[rows], y[rows]) for rows in members]


def divided(data: Data, settings: Settings, by_owner: bool) -> tuple[Data, Data | None]:
    """The data without the validation share of the training set, and the data with only that share; drawn before the
    partition.

    The same share is drawn from every class; from every client if the partition is by owner, so that no client ends
    without samples; and from all samples if there are neither classes nor owners.
    """
    share = settings.validation_share
    if share is None:
        return data, None
    groups = np.zeros(len(data.train_y), dtype=np.int64)
    if by_owner and data.owners is not None:
        groups = data.owners.cpu().numpy()
    elif not data.train_y.is_floating_point():
        groups = data.train_y.cpu().numpy()
    rng = seeding.generator(settings.seed, "validation")
    chosen = np.zeros(len(groups), dtype=bool)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        chosen[rng.choice(members, int(share * len(members)), replace=False)] = True
    if not chosen.any():
        raise ConfigError(f"validation_share={share} holds out none of {len(groups)} samples; take a larger share")
    mask = torch.from_numpy(chosen).to(data.train_y.device)
    return _with_samples(data, ~mask), _with_samples(data, mask)


def _with_samples(data: Data, kept: Tensor) -> Data:
    """The same data with only the training samples of a mask (N,) bool."""
    owners, clusters = (None if each is None else each[kept] for each in (data.owners, data.clusters))
    return replace(data, train_x=data.train_x[kept], train_y=data.train_y[kept], owners=owners, clusters=clusters)


def _in_turn(order: np.ndarray, clusters: np.ndarray | None) -> np.ndarray:
    """The clients in this order, but cycling through the true clusters, so that any first few cover them evenly."""
    if clusters is None:
        return order
    earlier = [np.count_nonzero(clusters[order[:i]] == clusters[client]) for i, client in enumerate(order)]
    return order[np.argsort(earlier, kind="stable")]
