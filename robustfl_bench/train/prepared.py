"""Gradients of a round that are computed before its local updates: beside those of other runs (see ``stack``), or of
clients with a model each, for all of them at once."""

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from robustfl_bench.numerics.network import stacked
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Samples

CHECKED = 2
"""Rounds in which gradients of clients with a model each are checked: in the first all models are equal."""


@dataclass(frozen=True)
class _Drawn(Samples):
    """Samples whose first batch is drawn."""

    first: Batch = field(default_factory=lambda: Batch(torch.empty(0), torch.empty(0), ()))

    def batch(self, step: int) -> Batch:
        return super().batch(step) if step else self.first


class _Answering:
    """A network that knows the gradients of one batch at one model."""

    def __init__(self, network: Network, known: "Gradients") -> None:
        self._network, self._gradients = network, known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def gradients(self, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        """As the network."""
        if batch is not self._gradients.batch or not self._gradients.is_at(params):
            return self._network.gradients(params, batch, out)
        out.copy_(self._gradients.rows)
        return self._gradients.losses


@dataclass(frozen=True)
class Gradients:
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


class Prepared:
    """The ``gradients`` of a federation's next round, and the trainings of the last one, which are likely again."""

    def __init__(self) -> None:
        self.gradients: tuple[Gradients, ...] = ()
        self._whole: dict[tuple[int, str], Samples] = {}

    def answering(self, network: Network, params: Tensor, samples: Samples) -> tuple[Network, Samples] | None:
        """The network and the samples, which have the gradients of the first batch at a model (d,) if these are there;
        else None."""
        found = [each for each in self.gradients if each.is_at(params)]
        if found and len(samples.clients) == len(samples.population):
            self._whole[id(samples.population), samples.stream] = replace(samples, memory={}, work=None)
        if (known := next((each for each in found if each.is_for(samples)), None)) is None:
            return None
        own = {each.name: getattr(samples, each.name) for each in fields(Samples)}
        answering: Any = _Answering(network, known)
        return answering, _Drawn(**own, first=known.batch)

    def again(self, round: int) -> list[Samples]:
        """The trainings of whole populations in the round before, as of this one."""
        return [replace(samples, round=round) for samples in self._whole.values() if samples.round == round - 1]


class OwnModels:
    """The gradients of clients at a model each, with the bytes of each client alone.

    Those of the first CHECKED rounds are also computed client by client. If a bit differs, there are no others.
    """

    def __init__(self) -> None:
        self._right, self._rounds = True, 0

    def gradients(self, network: Network, models: Tensor, samples: Samples, out: Tensor) -> Gradients | None:
        """The gradients at the ``models`` (n, d), written into ``out`` (n, d); None if clients must take turns."""
        if not self._right or network.side_by_side is not None:
            return None
        if network.together == 1 and not stacked.gains_by_own_models(network):
            return None
        batch = samples.batch(0)
        of_all = network.own_gradients if network.together > 1 else partial(stacked.own_gradients, network)
        losses = of_all(models, batch, out)
        if self._rounds < CHECKED:
            self._rounds += 1
            self._right = all(
                _is_alone(network, model, replace(samples, clients=[client], ids=[identity]), row, loss)
                for model, client, identity, row, loss in zip(
                    models, samples.clients, samples.ids, out, losses, strict=True
                )
            )
        return Gradients(models, samples, batch, out, losses) if self._right else None


def _is_alone(network: Network, params: Tensor, samples: Samples, row: Tensor, loss: Tensor) -> bool:
    """Whether a client's gradient (d,) and loss have the bytes that they have alone."""
    alone = torch.empty_like(row)
    same = torch.equal(network.gradients(params, samples.batch(0), alone[None])[0], loss)
    return same and torch.equal(alone.view(torch.int32), row.view(torch.int32))
