"""A model: one hidden layer (ours)."""

import math
from dataclasses import dataclass
from typing import Annotated

from torch import nn

from robustfl_bench import Model, at_least


@dataclass(frozen=True)
class Template(Model):
    """A hidden layer of ``width`` units with tanh, on the flattened input."""

    width: Annotated[int, at_least(1)] = 64
    """number of hidden units"""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        """The network. It has no batch statistics: what a sample gives depends on no other."""
        inputs = math.prod(input_shape)
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs, self.width), nn.Tanh(), nn.Linear(self.width, num_classes))
