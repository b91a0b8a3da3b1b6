"""Runs that share clients, samples and batches, whose honest gradients are computed for all of them at once.

The gradients of the honest clients are computed at the models of all runs before each round. All else of a round is
each run's own. The gradients have the same bytes as those that a run computes alone: the first ones of a stack are also
computed one by one, and the stack is given up if a bit differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.parts import Parts
from robustfl_bench.local_updates.base import LocalUpdate
from robustfl_bench.local_updates.fedsgd import FedSgd
from robustfl_bench.network import stacked
from robustfl_bench.network.network import Network
from robustfl_bench.network.samples import Batch, Samples
from robustfl_bench.protocols.base import Protocol
from robustfl_bench.protocols.state import State


@dataclass(frozen=True)
class _Drawn(Samples):
    """Samples whose first batch is drawn."""

    first: Batch = field(default_factory=lambda: Batch(torch.empty(0), torch.empty(0), ()))

    def batch(self, step: int) -> Batch:
        return super().batch(step) if step else self.first


class _Answering:
    """A network that knows the gradients of one batch at one model."""

    def __init__(self, network: Network, prepared: "_Prepared") -> None:
        self._network, self._prepared = network, prepared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def gradients(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the network."""
        if batch is not self._prepared.batch or not self._prepared.is_at(params):
            return self._network.gradients(params, batch, out)
        out.copy_(self._prepared.rows)
        return self._prepared.losses


@dataclass(frozen=True)
class _Prepared:
    """The gradients (n, d) and losses (n,) of honest clients on a batch at a model."""

    params: Tensor
    clients: list[int]
    batch: Batch
    rows: Tensor
    losses: Tensor

    def is_at(self, params: Tensor) -> bool:
        """Whether ``params`` is the same tensor as that of the model."""
        return params.data_ptr() == self.params.data_ptr() and params.shape == self.params.shape

    def is_for(self, samples: Samples, params: Tensor) -> bool:
        """Whether these are the gradients of the honest clients of ``samples`` at ``params``."""
        return self.is_at(params) and list(samples.clients) == self.clients


def can_be_stacked(parts: Parts) -> bool:
    """Whether a round begins with the gradients of the honest clients at the only model, a dense classifier."""
    if parts.clustering is not None or not _sends_a_gradient(parts.local_update) or parts.dataset.content != "numbers":
        return False
    if type(parts.course).step is not Protocol.step or parts.course.clients_compute_alone:
        return False
    with torch.device("meta"):
        return stacked.fits(parts.model(parts.dataset.input_shape, parts.dataset.num_classes))


def _sends_a_gradient(update: LocalUpdate) -> bool:
    """Whether clients compute one gradient, whatever is then made of it."""
    while isinstance(inner := getattr(update, "inner", None), LocalUpdate):
        update = inner
    return isinstance(update, FedSgd)


class Stackable(Federation):
    """A federation for which the honest clients' gradients of the next round may be ``prepared``."""

    prepared: tuple[_Prepared, ...] = ()

    def drawn(self, round: int) -> Samples:
        """The samples of the honest clients that take part in a round (from 0)."""
        clients = self.cohorts.present(round).honest
        ids, s = self.honest_ids[clients].tolist(), self.settings
        return Samples(
            self.honest, clients, ids, s.seed, "batches", round, s.batch_size, augmentation=self.parts.augmentation
        )

    def _local_update(self, samples: Samples, params: Tensor, lr: float, out: Tensor) -> Tensor:
        found = (each for each in self.prepared if samples.population is self.honest and each.is_for(samples, params))
        if (ready := next(found, None)) is None:
            return super()._local_update(samples, params, lr, out)
        own = {each.name: getattr(samples, each.name) for each in fields(Samples)}
        network: Any = _Answering(self.network, ready)
        return self.parts.local_update(network, params, _Drawn(**own, first=ready.batch), lr, out)


class Stack:
    """The honest clients' gradients of runs with the same clients, samples and batches."""

    def __init__(self) -> None:
        self.is_right: bool | None = None
        """Whether the gradients have the same bytes as those of a run alone; None until they are compared."""

    def prepare(self, runs: Sequence[tuple[Stackable, State]]) -> None:
        """Compute the gradients of the next round for runs that can be stacked and are in the same round, each a
        federation and its state.

        A federation may occur several times, with different models.
        """
        lead, state = runs[0]
        for federation, _ in runs:
            federation.prepared = ()
        if len(runs) < 2 or self.is_right is False or not stacked.is_stackable(lead.network):
            return
        samples = lead.drawn(state.round)
        if not samples.clients:
            return
        batch, network = samples.batch(0), lead.network
        models = torch.stack([state.params[0] for _, state in runs])
        rows = torch.empty(len(runs), len(samples.clients), network.dim)
        losses = stacked.gradients(network, models, batch, rows)
        if self.is_right is None:
            alone = torch.empty_like(rows[0])
            pairs = [(network.gradients(model, batch, alone), alone.clone()) for model in models]
            self.is_right = all(
                torch.equal(loss, own) and torch.equal(row.view(torch.int32), mine.view(torch.int32))
                for loss, row, (own, mine) in zip(losses, rows, pairs, strict=True)
            )
        if self.is_right:
            for (federation, state), row, loss in zip(runs, rows, losses, strict=True):
                ready = _Prepared(state.params[0], list(samples.clients), batch, row, loss)
                federation.prepared += (ready,)
