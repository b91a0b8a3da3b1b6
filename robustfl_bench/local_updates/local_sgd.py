"""Local SGD: a few mini-batch steps per round, and three ways to tell the server (RAGA, Zuo et al., arXiv
2403.13374)."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.engine.network import Network
from robustfl_bench.engine.samples import Batch, Samples
from robustfl_bench.interfaces import ConfigError, LocalUpdate, check_choice, check_fields


@dataclass(frozen=True)
class LocalSgd(LocalUpdate):
    """A client takes ``steps`` SGD steps from the server's model at the round's learning rate, or ``epochs`` passes.

    A step is on a batch of ``batch_size`` of its samples drawn anew, in a pass on the next of its shuffled samples.
    ``momentum`` and ``weight_decay`` are those of PyTorch's SGD; the momentum starts from zero in every round.

    What it sends, by ``upload``: ``mean_gradient`` the mean of its step gradients (RAGA, Algorithm 1; with momentum,
    of the steps over the learning rate), of which the server takes lr * ``server_lr`` off its model; ``difference``
    start minus end, of which it takes ``server_lr``; ``model`` the end itself. Rules see the difference also then, but
    attackers see and send models.
    """

    steps: int | None = 3
    epochs: int | None = None
    upload: str = "mean_gradient"
    momentum: float = 0.0
    weight_decay: float = 0.0
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self, steps=(1, math.inf), epochs=(1, math.inf), momentum=(0, 1), weight_decay=(0, math.inf))
        check_fields(self, server_lr=(0, math.inf))
        check_choice("upload", self.upload, ("mean_gradient", "difference", "model"))
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
        """Steps or passes in a round."""
        return self.epochs or self.steps or 1

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``, each
        over its first batch."""

        def descend(turn: tuple[Tensor, Iterable[Batch]]) -> Tensor:
            return self._descend(network, params, turn[1], lr, turn[0])

        return torch.cat(network.each(descend, self._turns(samples, out)))

    def step_size(self, lr: float) -> float:
        """What the server multiplies the aggregate with."""
        return self.server_lr * (lr if self.upload == "mean_gradient" else 1)

    def _turns(self, samples: Samples, out: Tensor) -> Iterator[tuple[Tensor, Iterable[Batch]]]:
        """The rows of those who train side by side, with their batches: all on a GPU, one by one on a CPU, and one by
        one where they take different numbers of steps."""
        if self.epochs is not None:
            for position, row in enumerate(out.split(1)):
                yield row, (Batch(x, y, (len(y),)) for x, y in samples.epochs(position, self.epochs))
            return
        drawn = [samples.batch(step) for step in range(self.steps or 0)]
        if out.device.type != "cpu" and samples.work is None:
            yield out, drawn
            return
        turns = zip(out.split(1), *(batch.clients() for batch in drawn), strict=True)
        for position, (row, *own) in enumerate(turns):
            yield row, [Batch(x, y, (len(y),)) for x, y in own[: samples.repeats(position, len(own))]]

    def _descend(self, network: Network, params: Tensor, batches: Iterable[Batch], lr: float, rows: Tensor) -> Tensor:
        """Write into ``rows`` (n, d) what n clients send after these batches; their losses (n,) over the first."""
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
