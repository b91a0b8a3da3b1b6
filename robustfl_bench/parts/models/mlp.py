"""Multi-layer perceptrons; the default is the 2NN of federated averaging (McMahan et al., AISTATS 2017, section 3)."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Annotated

from torch import nn

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.models.base import Model


@dataclass(frozen=True)
class Mlp(Model):
    """Fully connected layers with ReLU between them, on the flattened input."""

    hidden: Annotated[tuple[int, ...], at_least(1)] = (200, 200)
    """widths of the hidden layers; an empty list: softmax regression"""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten()]
        for fan_in, fan_out in pairwise([prod(input_shape), *self.hidden, num_classes]):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        return nn.Sequential(*layers[:-1])
