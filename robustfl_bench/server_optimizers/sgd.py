"""The server's step of gradient descent (FedSGD: McMahan et al., AISTATS 2017, https://arxiv.org/abs/1602.05629)."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.interfaces import ServerOptimizer


@dataclass(frozen=True)
class Sgd(ServerOptimizer):
    """Subtracts the step size times the aggregate. Remembers nothing."""

    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return params - step_size * aggregate, {}
