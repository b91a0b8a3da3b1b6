"""FedAvg (McMahan et al., AISTATS 2017, https://arxiv.org/abs/1602.05629) and FedProx (Li et al., MLSys 2020,
https://arxiv.org/abs/1812.06127): several local epochs per round."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.engine.network import Network
from robustfl_bench.engine.samples import Batch, Samples
from robustfl_bench.interfaces import LocalUpdate, check_fields


@dataclass(frozen=True)
class FedAvg(LocalUpdate):
    """A client descends from the server's model for ``epochs`` passes over its samples and sends start minus end.

    Plain SGD at the round's learning rate, a pass in shuffled batches of ``batch_size`` or in one step. ``mu`` > 0 is
    FedProx: it adds ``mu / 2 * |w - start|^2`` to the local loss. ``clip`` bounds every entry of a gradient. The server
    takes ``server_lr`` times the aggregate off its model. With one pass in one step, mu = 0 and server_lr = 1 this is
    FedSGD.

    The clients take turns. On a CPU that beats a batch over clients (vmap) for networks with a hidden layer at every
    batch size: such a batch reads every client's own weights for each of its samples and nothing stays in the cache.
    """

    epochs: int = 5
    mu: float = 0.0
    server_lr: float = 1.0
    clip: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, epochs=(1, math.inf), mu=(0, math.inf), server_lr=(0, math.inf), clip=(0, math.inf))

    @property
    def repeats(self) -> int:
        """Passes in a round."""
        return self.epochs

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``, each
        over its first batch."""

        def descend(position: int) -> Tensor:
            row, local, losses = out[position], params.clone(), []
            for x, y in samples.epochs(position, self.epochs):
                losses.append(network.gradients(local, Batch(x, y, (len(y),)), row[None]))
                if self.clip is not None:
                    row.clamp_(-self.clip, self.clip)
                if self.mu:
                    row.add_(local - params, alpha=self.mu)
                local.sub_(row, alpha=lr)
            torch.sub(params, local, out=row)
            return losses[0]

        return torch.cat(network.each(descend, range(len(out))))

    def step_size(self, lr: float) -> float:
        """What the server multiplies the aggregate with."""
        return self.server_lr
