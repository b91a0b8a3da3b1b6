"""A local update: a client takes a few steps, each along the mean of its last gradients (ours)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench import at_least, between
from robustfl_bench.interfaces import LocalUpdate
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Samples


@dataclass(frozen=True)
class Template(LocalUpdate):
    """``steps`` steps with ``momentum``, which starts from zero in every round; sends start minus end."""

    steps: Annotated[int, at_least(1)] = 2
    """mini-batch steps per round"""
    momentum: Annotated[float, between(0, 1)] = 0.5
    """share of the last step in the next one"""

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the clients' updates; returns their losses (n,) at ``params`` (d,)."""
        local, velocity, losses = params.repeat(len(out), 1), torch.zeros_like(out), []
        for step in range(self.steps):
            losses.append(network.own_gradients(local, samples.batch(step), out))
            velocity.mul_(self.momentum).add_(out)
            local.sub_(velocity, alpha=lr)
        torch.sub(params, local, out=out)
        return losses[0]

    def step_size(self, lr: float) -> float:
        """The factor of the aggregate in the server's step: updates are differences of models."""
        return 1.0
