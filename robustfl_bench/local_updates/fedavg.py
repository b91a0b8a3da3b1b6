"""FedAvg (McMahan et al., AISTATS 2017, https://arxiv.org/abs/1602.05629) and FedProx (Li et al., MLSys 2020,
https://arxiv.org/abs/1812.06127): several local epochs per round."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.base.errors import check_fields
from robustfl_bench.local_updates.base import LocalUpdate
from robustfl_bench.network.network import Network
from robustfl_bench.network.samples import Batch, Samples
from robustfl_bench.network.turns import by_passes, descend


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

    epochs: int = 5
    mu: float = 0.0
    server_lr: float = 1.0
    clip: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, epochs=(1, math.inf), mu=(0, math.inf), server_lr=(0, math.inf), clip=(0, math.inf))

    @property
    def repeats(self) -> int:
        """Number of passes in a round."""
        return self.epochs

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``, each
        over its first batch."""

        def work(rows: Tensor, batches: Iterable[Batch]) -> Tensor:
            local, losses = params.repeat(len(rows), 1), []
            for batch in batches:
                alone = len(rows) == 1
                losses.append(
                    network.gradients(local[0], batch, rows) if alone else network.own_gradients(local, batch, rows)
                )
                if self.clip is not None:
                    rows.clamp_(-self.clip, self.clip)
                if self.mu:
                    rows.add_(local - params, alpha=self.mu)
                local.sub_(rows, alpha=lr)
            torch.sub(params, local, out=rows)
            return losses[0]

        return descend(network, work, by_passes(samples, self.epochs, out.device), out)

    def step_size(self, lr: float) -> float:
        """The factor of the aggregate in the server's step."""
        return self.server_lr
