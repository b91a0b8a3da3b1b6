"""Local SGD: a few mini-batch steps per round, and three forms of the upload (RAGA, Zuo et al., arXiv
2403.13374)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.numerics.network.client_rows import by_passes, by_steps, descend
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Samples
from robustfl_bench.parts.local_updates.base import LocalUpdate


@dataclass(frozen=True)
class LocalSgd(LocalUpdate):
    """A client takes ``steps`` SGD steps from the server's model at the round's learning rate, or ``epochs`` passes.

    A step uses a newly drawn batch of ``batch_size`` of its samples, or in a pass the next of its shuffled samples.
    ``momentum`` and ``weight_decay`` are those of PyTorch's SGD; the momentum starts from zero in every round.

    With ``upload`` = ``mean_gradient``, the client sends the mean of its step gradients (RAGA, Algorithm 1; with
    momentum, of its steps divided by the learning rate), and the server subtracts lr * ``server_lr`` times the
    aggregate. With ``difference``, the client sends start minus end, and the server subtracts ``server_lr`` times the
    aggregate. With ``model``, it sends the end itself; rules still see the difference, but attackers see and send
    models.
    """

    steps: Annotated[int | None, at_least(1)] = 3
    """K: mini-batch steps per round; null: with epochs"""
    epochs: Annotated[int | None, at_least(1)] = None
    """E: passes over the local samples, instead of steps; null: with steps"""
    upload: Annotated[str, one_of(mean_gradient="of the steps", difference="start minus end", model="the end")] = (
        "mean_gradient"
    )
    """what a client sends"""
    momentum: Annotated[float, between(0, 1)] = 0.0
    """share of the last step that is added to the next one; zero at the start of a round"""
    weight_decay: Annotated[float, at_least(0)] = 0.0
    """multiple of the parameters that is added to a gradient"""
    server_lr: Annotated[float, at_least(0)] = 1.0
    """the server's step size; with mean_gradient it is multiplied by lr"""

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ConfigError(
                f"local_sgd takes steps or epochs, got steps={self.steps}, epochs={self.epochs}; set the other to null"
            )

    @property
    def sends_models(self) -> bool:
        """Whether attackers see and send models instead of differences."""
        return self.upload == "model"

    @property
    def repeats(self) -> int:
        """Number of steps or passes in a round."""
        return self.epochs or self.steps or 1

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``, each
        over its first batch."""
        together = network.together
        turns = by_steps(samples, self.steps, together) if self.steps else by_passes(samples, self.repeats, together)
        return descend(network, lambda rows, batches: self._descend(network, params, batches, lr, rows), turns, out)

    def step_size(self, lr: float) -> float:
        """The factor of the aggregate in the server's step."""
        return self.server_lr * (lr if self.upload == "mean_gradient" else 1)

    def _descend(self, network: Network, params: Tensor, batches: Iterable[Batch], lr: float, rows: Tensor) -> Tensor:
        """Write the updates of n clients after these batches into ``rows`` (n, d); returns the first losses (n,)."""
        losses: list[Tensor] = []
        local, velocity = params.expand_as(rows), None
        moved, spare = torch.empty_like(rows), torch.empty_like(rows)
        for batch in batches:  # rows: the sum of the steps so far
            first = not losses
            gradients = rows if first else spare
            if not first:
                local = torch.add(params, rows, alpha=-lr, out=moved)
            losses.append(network.own_gradients(local, batch, gradients))
            if self.weight_decay:
                gradients.add_(local, alpha=self.weight_decay)
            if self.momentum:
                velocity = gradients.clone() if velocity is None else velocity.mul_(self.momentum).add_(gradients)
            if not first:
                rows.add_(gradients if velocity is None else velocity)
        rows.mul_(1 / len(losses) if self.upload == "mean_gradient" else lr)
        return losses[0]
