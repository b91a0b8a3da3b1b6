"""Multi-layer perceptrons; the default is the 2NN of federated averaging (McMahan et al., AISTATS 2017, section 3)."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from torch import nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.models.base import Model


@dataclass(frozen=True)
class Mlp(Model):
    """Fully connected layers with ReLU between them, on the flattened input.

    ``hidden`` are the widths of the hidden layers; an empty list gives a linear (softmax regression) model.
    """

    hidden: tuple[int, ...] = (200, 200)

    def __post_init__(self) -> None:
        if not all(isinstance(width, int) and width >= 1 for width in self.hidden):
            raise ConfigError(f"model.hidden must be a list of positive whole numbers, got {list(self.hidden)}")

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten()]
        for fan_in, fan_out in pairwise([prod(input_shape), *self.hidden, num_classes]):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        return nn.Sequential(*layers[:-1])
