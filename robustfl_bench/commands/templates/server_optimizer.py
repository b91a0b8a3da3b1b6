"""A server's step: with momentum."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench import ServerOptimizer, check_fields


@dataclass(frozen=True)
class Template(ServerOptimizer):
    """Subtracts the step size times a velocity, ``momentum`` times the last one plus the aggregate. 0 is plain SGD."""

    momentum: float = 0.9

    def __post_init__(self) -> None:
        check_fields(self, momentum=(0, 1))

    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The next parameters (d,), and what is given back as ``memory`` in the next round."""
        velocity = self.momentum * memory.get("velocity", torch.zeros_like(aggregate)) + aggregate
        return params - step_size * velocity, {"velocity": velocity}
