"""Runs that share clients, samples and batches, whose gradients are computed for all of them at once.

The gradients of the honest clients are computed at the models of all runs before each round, and so are those of
attackers who poison nothing but labels and of the server, where the round before needed them. All else of a round is
each run's own. The gradients have the same bytes as those that a run computes alone: the first ones on the same samples
are also computed one by one, and these samples are given up if a bit differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.base.abilities import overrides
from robustfl_bench.numerics.network import stacked
from robustfl_bench.numerics.network.samples import Batch, Samples
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.parts import Parts
from robustfl_bench.train.prepared import Gradients

MOST = 32
"""Trainings that are stacked, at most: more gain nothing."""

NUMBERS = 1 << 24
"""Numbers in the updates of trainings that are stacked, at most: 64 MiB."""


def can_be_stacked(parts: Parts) -> bool:
    """Whether a round begins with the gradients of the honest clients at the only model, a dense classifier."""
    if parts.clustering is not None or not parts.local_update.sends_a_gradient or parts.dataset.content != "numbers":
        return False
    if overrides(parts.course, "step") or parts.course.clients_compute_alone:
        return False
    with torch.device("meta"):
        return stacked.fits(parts.model(parts.dataset.input_shape, parts.dataset.num_classes))


def at_once(updates: int) -> int:
    """How many trainings are stacked at most, if a round of one of them has so many numbers in its ``updates``."""
    return max(1, min(MOST, NUMBERS // updates))


def _trainings(federation: Federation, round: int) -> list[Samples]:
    """The trainings from the model of a round (from 0) that are expected in it: that of the honest clients who take
    part, and those of all attackers or on all samples of the server that the round before had."""
    if not federation.storage.stacks:
        return []
    honest, clients, s = federation.honest, federation.cohorts.present(round).honest, federation.settings
    ids, augmentation = federation.clients.honest_ids[clients].tolist(), federation.parts.augmentation
    first = Samples(honest, clients, ids, s.seed, "batches", round, s.batch_size, augmentation=augmentation)
    return [first, *(each for each in federation.prepared.again(round) if each.population is not honest)]


@dataclass(frozen=True)
class _Training:
    """A training from a model that is expected in the next round of a run."""

    federation: Federation
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

    def prepare(self, runs: Sequence[tuple[Federation, State]]) -> None:
        """Compute gradients of the next round for runs that can be stacked and are in the same round, each a federation
        and its state.

        A federation may occur several times, with different models.
        """
        for federation, _ in runs:
            federation.prepared.gradients = ()
        if len(runs) < 2 or not stacked.is_stackable(runs[0][0].network):
            return
        kinds: dict[tuple[bytes, str], list[_Training]] = {}
        for federation, state in runs:
            for samples in _trainings(federation, state.round):
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
                known = Gradients(training.params, training.samples, batch, row, loss)
                training.federation.prepared.gradients += (known,)
