"""Runs that share clients, samples and batches, whose gradients are computed for all of them at once.

The gradients of the honest clients are computed at the models of all runs before each round, and so are those of
attackers who poison nothing but labels and of the server, where the round before needed them. All else of a round is
each run's own. The gradients have the same bytes as those that a run computes alone: the first ones on the same samples
are also computed one by one, and these samples are given up if a bit differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from robustfl_bench.base.abilities import overrides
from robustfl_bench.numerics.network import stacked
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Samples
from robustfl_bench.parts.local_updates.base import LocalUpdate
from robustfl_bench.parts.local_updates.fedsgd import FedSgd
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.parts import Parts

MOST = 32
"""Trainings that are stacked, at most: more gain nothing."""

NUMBERS = 1 << 24
"""Numbers in the updates of trainings that are stacked, at most: 64 MiB."""


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
    """The gradients (n, d) and losses (n,) of the clients of ``samples`` at a model, on their first batch."""

    params: Tensor
    samples: Samples
    batch: Batch
    rows: Tensor
    losses: Tensor

    def is_at(self, params: Tensor) -> bool:
        """Whether ``params`` is the same tensor as that of the model."""
        return params.data_ptr() == self.params.data_ptr() and params.shape == self.params.shape

    def is_for(self, samples: Samples) -> bool:
        """Whether these are the gradients of the clients of ``samples``."""
        own = self.samples
        same = samples.population is own.population and list(samples.clients) == list(own.clients)
        return same and (samples.stream, samples.round) == (own.stream, own.round)


def can_be_stacked(parts: Parts) -> bool:
    """Whether a round begins with the gradients of the honest clients at the only model, a dense classifier."""
    if parts.clustering is not None or not _sends_a_gradient(parts.local_update) or parts.dataset.content != "numbers":
        return False
    if overrides(parts.course, "step") or parts.course.clients_compute_alone:
        return False
    with torch.device("meta"):
        return stacked.fits(parts.model(parts.dataset.input_shape, parts.dataset.num_classes))


def at_once(updates: int) -> int:
    """How many trainings are stacked at most, if a round of one of them has so many numbers in its ``updates``."""
    return max(1, min(MOST, NUMBERS // updates))


def _sends_a_gradient(update: LocalUpdate) -> bool:
    """Whether clients compute one gradient, whatever is then made of it."""
    while isinstance(inner := getattr(update, "inner", None), LocalUpdate):
        update = inner
    return isinstance(update, FedSgd)


class Stackable(Federation):
    """A federation for which gradients at the model of the next round may be ``prepared``."""

    prepared: tuple[_Prepared, ...] = ()

    def trainings(self, round: int) -> list[Samples]:
        """The trainings from the model of a round (from 0) that are expected in it: that of the honest clients who take
        part, and those of all attackers or on all samples of the server that the round before had."""
        clients = self.cohorts.present(round).honest
        ids, s = self.honest_ids[clients].tolist(), self.settings
        honest = Samples(
            self.honest, clients, ids, s.seed, "batches", round, s.batch_size, augmentation=self.parts.augmentation
        )
        others = [replace(samples, round=round) for samples in self._others.values() if samples.round == round - 1]
        return [honest, *others]

    @cached_property
    def _others(self) -> dict[tuple[int, str], Samples]:
        """The last trainings of whole populations other than the honest clients, by population and stream."""
        return {}

    def _local_update(self, samples: Samples, params: Tensor, lr: float, out: Tensor) -> Tensor:
        found = [each for each in self.prepared if each.is_at(params)]
        if found and samples.population is not self.honest and len(samples.clients) == len(samples.population):
            self._others[id(samples.population), samples.stream] = replace(samples, memory={}, work=None)
        if (ready := next((each for each in found if each.is_for(samples)), None)) is None:
            return super()._local_update(samples, params, lr, out)
        own = {each.name: getattr(samples, each.name) for each in fields(Samples)}
        network: Any = _Answering(self.network, ready)
        return self.parts.local_update(network, params, _Drawn(**own, first=ready.batch), lr, out)


@dataclass(frozen=True)
class _Training:
    """A training from a model that is expected in the next round of a run."""

    federation: Stackable
    params: Tensor
    samples: Samples

    @property
    def kind(self) -> tuple[bytes, str]:
        """What trainings on the same inputs have in common."""
        return self.samples.population.digests[0], self.samples.stream


class Stack:
    """The gradients of runs with the same clients and batches."""

    def __init__(self) -> None:
        self._right: dict[tuple[bytes, str], bool] = {}  # by kind: whether the gradients have the bytes of a run alone

    def prepare(self, runs: Sequence[tuple[Stackable, State]]) -> None:
        """Compute gradients of the next round for runs that can be stacked and are in the same round, each a federation
        and its state.

        A federation may occur several times, with different models.
        """
        for federation, _ in runs:
            federation.prepared = ()
        if len(runs) < 2 or not stacked.is_stackable(runs[0][0].network):
            return
        kinds: dict[tuple[bytes, str], list[_Training]] = {}
        for federation, state in runs:
            for samples in federation.trainings(state.round):
                training = _Training(federation, state.params[0], samples)
                kinds.setdefault(training.kind, []).append(training)
        for kind, trainings in kinds.items():
            if len(trainings) > 1 and trainings[0].samples.clients and self._right.get(kind, True):
                self._compute(kind, trainings)

    def _compute(self, kind: tuple[bytes, str], trainings: Sequence[_Training]) -> None:
        """Compute the gradients of trainings on the same inputs, whose labels may differ."""
        network, drawn = trainings[0].federation.network, dict[bytes, Batch]()
        for training in trainings:
            labels = training.samples.population.digests[1]
            drawn[labels] = drawn.get(labels) or training.samples.batch(0)
        batches = [drawn[training.samples.population.digests[1]] for training in trainings]
        models = torch.stack([training.params for training in trainings])
        rows = torch.empty(len(models), len(batches[0].sizes), network.dim)
        losses = stacked.gradients(network, models, batches, rows)
        if kind not in self._right:
            alone = torch.empty_like(rows[0])
            pairs = [
                (network.gradients(model, batch, alone), alone.clone())
                for model, batch in zip(models, batches, strict=True)
            ]
            self._right[kind] = all(
                torch.equal(loss, own) and torch.equal(row.view(torch.int32), mine.view(torch.int32))
                for loss, row, (own, mine) in zip(losses, rows, pairs, strict=True)
            )
        if self._right[kind]:
            for training, batch, row, loss in zip(trainings, batches, rows, losses, strict=True):
                ready = _Prepared(training.params, training.samples, batch, row, loss)
                training.federation.prepared += (ready,)
