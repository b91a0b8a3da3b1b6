"""Local training of the clients of one run, with its memory."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.parts.protocols.state import ModelState, Remembered
from robustfl_bench.train.clients import Clients
from robustfl_bench.train.cohorts import Cohorts
from robustfl_bench.train.contract import Contract


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

    @cached_property
    def buffer(self) -> Tensor:
        """A buffer for the updates of a round, reused in every round, (updates per round, d)."""
        return self.rows(self.updates_per_round)

    def rows(self, n: int) -> Tensor:
        """An uninitialised buffer for n updates, (n, d)."""
        return torch.empty(n, self.network.dim, device=self.data.train_x.device)
