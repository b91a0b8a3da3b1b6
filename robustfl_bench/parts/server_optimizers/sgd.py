"""The server's step of gradient descent (FedSGD: McMahan et al., AISTATS 2017, https://arxiv.org/abs/1602.05629), and
with momentum (FedAvgM: Hsu, Qi, Brown, arXiv 1909.06335)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.server_optimizers.base import ServerOptimizer


@dataclass(frozen=True)
class Sgd(ServerOptimizer):
    """Subtracts the step size times the aggregate, as PyTorch's SGD does with a gradient.

    ``weight_decay`` adds that multiple of the parameters to the aggregate, after the rule; the rule sees the weight
    decay of a local update, but not this one. Then ``momentum`` adds that multiple of the last velocity v; the sum is
    the new v, and the server steps along it. With null or 0, neither is applied, and without ``momentum`` nothing is
    remembered.
    """

    momentum: Annotated[float | None, between(0, 1)] = None
    """share of the previous velocity that is added to the aggregate; null: none"""
    weight_decay: Annotated[float | None, at_least(0)] = None
    """multiple of the parameters that is added to the aggregate; null: no decay"""

    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if self.weight_decay:
            aggregate = aggregate + self.weight_decay * params
        if not self.momentum:
            return params - step_size * aggregate, {}
        velocity = self.momentum * memory["velocity"] + aggregate if memory else aggregate
        return params - step_size * velocity, {"velocity": velocity}
