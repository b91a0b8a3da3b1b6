"""Local training of the clients of one run, with its memory."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.attacks.base import Attack
from robustfl_bench.base import seeding
from robustfl_bench.engine.clients import Clients
from robustfl_bench.engine.cohorts import Cohorts
from robustfl_bench.engine.contract import Contract
from robustfl_bench.network.samples import Population, Samples
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.protocols.state import ModelState, Remembered


class Federation(Clients):
    """The clients, the server and the network of one run, and their local training."""

    @cached_property
    def cohorts(self) -> Cohorts:
        """Forms the cohorts of every round."""
        return Cohorts(self)

    @cached_property
    def contract(self) -> Contract:
        """Checks the results of the parts on their first call."""
        return Contract()

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
    ) -> Updates:
        """The updates of the chosen clients of a population from ``model``, written into the rows of ``out`` (n, d).

        ``ids`` and ``stream`` name the random streams. ``memory`` is changed in place; None for a trial that keeps
        nothing. ``work`` (N,) is the share of its local work that each client of the federation does; None for all of
        it.
        """
        s, parts = self.settings, self.parts
        kept = {} if memory is None else memory
        drawn = (population, clients, ids, s.seed, stream, model.round, s.batch_size)
        samples = Samples(*drawn, kept, parts.augmentation, work)
        lr = parts.schedule(s.lr, model.round)
        losses = self._local_update(samples, model.params, lr, out) if clients else out.new_zeros(0).double()
        return Updates(out, torch.from_numpy(samples.sizes).to(out.device, torch.float64), losses)

    def _local_update(self, samples: Samples, params: Tensor, lr: float, out: Tensor) -> Tensor:
        """Fill ``out`` (n, d) with the updates of the clients of ``samples``; returns their losses (n,)."""
        update, network, one_by_one = self.parts.local_update, self.network, self.parts.course.clients_compute_alone
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

    @cached_property
    def poisonings(self) -> dict[Attack, Population]:
        """The Byzantine clients' samples as poisoned by other attacks than that of the run, kept once they are made."""
        return {}

    def under(self, attack: Attack, seed: int | None = None) -> Federation:
        """The same federation under another attack.

        With a ``seed`` it is a simulation by the attackers: the clients, their samples and the server's are the same,
        but all random streams are others. With ``knowledge=own``, honest clients then have the attackers' samples.
        """
        return _Under(self, attack, seed)

    @cached_property
    def buffer(self) -> Tensor:
        """A buffer for the updates of a round, reused in every round, (updates per round, d)."""
        return self.rows(self.updates_per_round)

    def rows(self, n: int) -> Tensor:
        """An uninitialised buffer for n updates, (n, d)."""
        return torch.empty(n, self.network.dim, device=self.data.train_x.device)


class _Under(Federation):
    """A federation under another attack; what does not depend on the attack is that of the real one."""

    def __init__(self, real: Federation, attack: Attack, seed: int | None) -> None:
        fixed = ("data", "held_out", "num_classes", "network", "shards", "honest_ids", "byzantine_ids")
        vars(self).update({name: getattr(real, name) for name in fixed})
        self.settings = real.settings if seed is None else replace(real.settings, seed=seed)
        self.parts = replace(real.parts, attack=attack)
        self._real = real
        self._blind = seed is not None and real.settings.knowledge == "own"

    @cached_property
    def honest(self) -> Population:
        return self._real.unpoisoned(self._supposed) if self._blind else self._real.honest

    @cached_property
    def counts(self) -> Tensor:
        counts = self._real.counts
        if self._blind:
            counts = counts.clone()
            counts[self.honest_ids] = counts[self._supposed]
        return counts

    @cached_property
    def label_counts(self) -> Tensor:
        return super().label_counts if self._blind else self._real.label_counts

    @cached_property
    def byzantine(self) -> Population:
        known, attack = self._real.poisonings, self.parts.attack
        if attack not in known:
            known[attack] = self._real.poisoned(self.byzantine_ids, attack)
        return known[attack]

    @cached_property
    def byzantine_clean(self) -> Population:
        return self._real.byzantine_clean

    @cached_property
    def server(self) -> Population:
        return self._real.server

    @cached_property
    def buffer(self) -> Tensor:
        return self._real.buffer

    @property
    def _supposed(self) -> np.ndarray:
        """The attackers whose samples stand for those of the honest clients, cyclically, (h,)."""
        return np.resize(self.byzantine_ids, len(self.honest_ids))
