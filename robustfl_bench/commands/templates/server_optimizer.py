"""A server's step: with momentum (ours)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench import ServerOptimizer, between


@dataclass(frozen=True)
class Template(ServerOptimizer):
    """Subtracts the step size times a velocity, ``momentum`` times the last one plus the aggregate."""

    momentum: Annotated[float, between(0, 1)] = 0.9
    """share of the last velocity in the next one; 0: plain SGD"""

    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The next parameters (d,), and what is given back as ``memory`` in the next round."""
        velocity = self.momentum * memory.get("velocity", torch.zeros_like(aggregate)) + aggregate
        return params - step_size * velocity, {"velocity": velocity}
