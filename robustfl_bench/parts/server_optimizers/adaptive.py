"""FedAdagrad, FedYogi and FedAdam: a step size for each coordinate (Reddi et al., ICLR 2021, Algorithm 2,
https://arxiv.org/abs/2003.00295)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.server_optimizers.base import ServerOptimizer


@dataclass(frozen=True)
class Adaptive(ServerOptimizer):
    """Subtracts the step size times m / (sqrt(v) + tau), where m = beta1 m + (1 - beta1) a for the aggregate a.

    ``kind`` is the update of v: ``adagrad`` v + a^2; ``adam`` beta2 v + (1 - beta2) a^2; ``yogi`` v - (1 - beta2)
    a^2 sign(v - a^2). As published, m starts at 0 and v at tau^2, and their bias in the first rounds is not corrected,
    unlike in PyTorch's Adam. The step size is lr for local updates that send gradients (times ``server_lr``, if they
    have one), else the ``server_lr`` of the local update, the paper's eta.
    """

    kind: Annotated[str, one_of("adagrad", "adam", "yogi")] = "adam"
    """how squares of aggregates are summed"""
    beta1: Annotated[float, between(0, 1)] = 0.9
    """decay of the running mean of aggregates"""
    beta2: Annotated[float, between(0, 1)] = 0.99
    """decay of the running mean of squares; not used by adagrad"""
    tau: Annotated[float, at_least(1e-18)] = 1e-3
    """added to the root of the sum of squares; larger values adapt less"""

    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        first = memory.get("first", torch.zeros_like(params))
        second = memory.get("second", torch.full_like(params, self.tau**2))
        first, square = self.beta1 * first + (1 - self.beta1) * aggregate, aggregate.square()
        if self.kind == "adagrad":
            second = second + square
        elif self.kind == "adam":
            second = self.beta2 * second + (1 - self.beta2) * square
        else:
            second = second - (1 - self.beta2) * square * (second - square).sign()
        step = first / (second.sqrt() + self.tau)
        return params - step_size * step, {"first": first, "second": second}
