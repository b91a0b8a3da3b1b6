"""FedAvg (McMahan et al., AISTATS 2017, https://arxiv.org/abs/1602.05629) and FedProx (Li et al., MLSys 2020,
https://arxiv.org/abs/1812.06127): several local epochs per round."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.network.client_rows import by_passes, descend
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Samples
from robustfl_bench.parts.local_updates.base import LocalUpdate


@dataclass(frozen=True)
class FedAvg(LocalUpdate):
    """A client descends from the server's model for ``epochs`` passes over its samples and sends start minus end.

    The client runs plain SGD at the round's learning rate, with a pass in shuffled batches of ``batch_size`` or in one
    step. ``mu`` > 0 is FedProx: it adds ``mu / 2 * |w - start|^2`` to the local loss. ``clip`` bounds every entry of a
    gradient. The server subtracts ``server_lr`` times the aggregate from its model. With one pass in one step, mu = 0
    and server_lr = 1, the server's step is that of FedSGD.

    On a CPU the clients take turns. For networks with a hidden layer, this is faster at every batch size than a batch
    over clients (vmap), which reads every client's weights for each of its samples, so that nothing stays in the cache.
    """

    epochs: Annotated[int, at_least(1)] = 5
    """E: passes over the local samples in a round"""
    mu: Annotated[float, at_least(0)] = 0.0
    """weight of FedProx's pull towards the server's model; 0: FedAvg"""
    server_lr: Annotated[float, at_least(0)] = 1.0
    """factor of the aggregated change of the clients' models"""
    clip: Annotated[float | None, at_least(0)] = None
    """largest size of an entry of a gradient; null: no limit"""

    @property
    def repeats(self) -> int:
        """Number of passes in a round."""
        return self.epochs

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``, each
        over its first batch."""

        def work(rows: Tensor, batches: Iterable[Batch]) -> Tensor:
            local, losses = params.repeat(len(rows), 1), []
            for loss in network.gradients_along(local, batches, rows):
                losses.append(loss)
                if self.clip is not None:
                    rows.clamp_(-self.clip, self.clip)
                if self.mu:
                    rows.add_(local - params, alpha=self.mu)
                local.sub_(rows, alpha=lr)
            torch.sub(params, local, out=rows)
            return losses[0]

        return descend(network, work, by_passes(samples, self.epochs, network.together), out)

    def step_size(self, lr: float) -> float:
        """The factor of the aggregate in the server's step."""
        return self.server_lr
