"""A federation: its clients, the storage of their updates, what it sees of the clients, and their local training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.datasets.base import Data
from robustfl_bench.parts.protocols.state import ModelState, Remembered
from robustfl_bench.train.clients import Clients, Unshared
from robustfl_bench.train.cohorts import Cohorts
from robustfl_bench.train.contract import Contract
from robustfl_bench.train.parts import Parts
from robustfl_bench.train.prepared import OwnModels, Prepared
from robustfl_bench.train.settings import Settings
from robustfl_bench.train.storage import InMemory
from robustfl_bench.train.views import AS_THEY_ARE, View

Store = Callable[[int, int, torch.device], InMemory]
"""Makes the storage of so many updates, with so many parameters each, on a device."""


def federation_of(
    settings: Settings, parts: Parts, data: Data, store: Store = InMemory, shelf: Unshared | None = None
) -> Federation:
    """The federation of one run; ``store`` makes its storage, ``shelf`` holds its largest samples."""
    clients = Clients(settings, parts, data, shelf)
    number = parts.course.updates_per_round(settings.clients_per_round)
    return Federation(settings, parts, clients, store(number, clients.network.dim, clients.data.train_x.device))


@dataclass(frozen=True, eq=False)
class Federation:
    """The clients, the server and the network of one run, and their local training.

    In a simulation of the run by attackers, ``settings`` have another seed than those of the clients, ``parts`` another
    attack, and the ``view`` says which samples the clients then have.
    """

    settings: Settings
    parts: Parts
    clients: Clients
    storage: InMemory
    view: View = AS_THEY_ARE
    prepared: Prepared = field(default_factory=Prepared, init=False)

    @property
    def network(self) -> Network:
        """The network that all clients train."""
        return self.clients.network

    @cached_property
    def cohorts(self) -> Cohorts:
        """Forms the cohorts of every round."""
        return Cohorts(self)

    @cached_property
    def contract(self) -> Contract:
        """Checks the results of the parts on their first call."""
        return Contract()

    @cached_property
    def _enough(self) -> dict[int, bool]:
        return {0: False}

    def is_enough(self, clients: int) -> bool:
        """Whether the rule can work with so many clients, which is asked once: somebody else's rule is tried for it."""
        if clients not in self._enough:
            try:
                self.parts.check_clients(clients)
                self._enough[clients] = True
            except ConfigError:
                self._enough[clients] = False
        return self._enough[clients]

    @cached_property
    def own_models(self) -> OwnModels:
        """Computes the gradients of clients with a model each."""
        return OwnModels()

    @cached_property
    def honest(self) -> Population:
        """The honest clients' samples."""
        return self.view.honest(self.clients)

    @cached_property
    def byzantine(self) -> Population:
        """The Byzantine clients' own samples, poisoned."""
        return self.view.byzantine(self.clients, self.parts.attack)

    @cached_property
    def counts(self) -> Tensor:
        """The sample counts (N,) float64 that all clients report."""
        return self.view.counts(self.clients)

    @cached_property
    def label_counts(self) -> Tensor:
        """The honest clients' samples per class, (h, c); without classes, c = 0."""
        if self.network.regression:
            return torch.zeros(len(self.honest), 0, dtype=torch.int64)
        return self.honest.label_counts(self.clients.num_classes)

    def attackers_samples(self, round: int) -> Population:
        """The samples that the Byzantine clients train on in a round (from 1)."""
        return self.byzantine if self.parts.attack.active(round) else self.clients.byzantine_clean

    def samples(self) -> list[tuple[Tensor, Tensor]]:
        """The samples of every client before the first round; Byzantine clients' samples are those that they would
        train on."""
        clients, honest = self.clients, self.honest.batch(range(len(self.honest))).clients()
        own = dict(zip(clients.honest_ids, honest, strict=True))
        if len(clients.byzantine_ids):
            theirs = self.attackers_samples(1)
            own |= dict(zip(clients.byzantine_ids, theirs.batch(range(len(theirs))).clients(), strict=True))
        return [own[i] for i in sorted(own)]

    def train(
        self,
        population: Population,
        clients: list[int],
        ids: list[int],
        stream: str,
        model: ModelState,
        out: Tensor,
        memory: Remembered | None = None,
        work: np.ndarray | None = None,
        whose: str = "",
    ) -> Updates:
        """The updates of the chosen clients of a population from ``model``, written into the rows of ``out`` (n, d).

        ``ids``, ``stream`` and ``whose`` name the random streams. ``memory`` is changed in place; None for a trial that
        keeps nothing. ``work`` (N,) is the share of its local work that each client of the federation does; None for
        all of it.
        """
        s, parts = self.settings, self.parts
        kept, lr = {} if memory is None else memory, parts.schedule(s.lr, model.round)

        def trained(some: slice, rows: Tensor) -> Updates:
            drawn = (population, clients[some], ids[some], s.seed, stream, model.round, s.batch_size)
            samples = Samples(*drawn, kept, parts.augmentation, work, whose)
            losses = self._local_update(samples, model.params, lr, rows) if clients else rows.new_zeros(0).double()
            return Updates(rows, torch.from_numpy(samples.sizes).to(rows.device, torch.float64), losses)

        return self.storage.train(out, population.sizes[clients], self.network, trained)

    def _local_update(self, samples: Samples, params: Tensor, lr: float, out: Tensor) -> Tensor:
        """Fill ``out`` (n, d) with the updates of the clients of ``samples``; returns their losses (n,)."""
        update, network, one_by_one = self.parts.local_update, self.network, self.parts.course.clients_compute_alone
        if (answering := self.prepared.answering(network, params, samples)) is not None:
            return update(answering[0], params, answering[1], lr, out)
        noisy = network.stochastic and network.side_by_side is None
        if not noisy and not one_by_one:
            return update(network, params, samples, lr, out)

        def train(client: int, identity: int, row: Tensor) -> Tensor:
            # Each client has its own random stream, independent of the other participants, and memory of its own
            noise = seeding.integer(samples.seed, "noise", samples.stream, samples.round, identity)
            with network.noise(noise) if noisy else nullcontext():
                own = torch.empty_like(row) if one_by_one else row
                losses = update(network, params, replace(samples, clients=[client], ids=[identity]), lr, own)
                if one_by_one:
                    row.copy_(own)
            return losses

        first, *others = zip(samples.clients, samples.ids, out.split(1), strict=True)
        losses = [train(*first)]
        remembers = bool(samples.memory)  # a memory that clients share cannot be changed by several threads
        losses += [train(*turn) for turn in others] if remembers else network.each(lambda turn: train(*turn), others)
        return torch.cat(losses)
