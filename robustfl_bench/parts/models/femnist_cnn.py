"""The convolutional network of LEAF for FEMNIST (Caldas et al., arXiv 1812.01097), as ARFL shrinks it."""

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.initialisation import INITS, glorot
from robustfl_bench.parts.models.layout import ChannelsLast


@dataclass(frozen=True)
class FemnistCnn(Model):
    """5x5 convolutions with 32 and 64 filters that keep the size, each with ReLU and 2x2 max-pooling; two dense layers.

    For 1 x 28 x 28 images and 62 classes, there are 461,630 parameters. ARFL uses Keras, and so ``init`` glorot.

    Code: ARFL's has ``dense`` 128 hidden units, its text 126.
    """

    dense: Annotated[int, at_least(1)] = 128
    """width of the hidden dense layer"""
    init: Annotated[str, one_of(**INITS)] = "glorot"
    """initial weights"""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise ConfigError(f"model femnist_cnn needs images of at least 4 x 4, got inputs of shape {input_shape}")
        channels, height, width = input_shape
        module = nn.Sequential(
            ChannelsLast(),
            *(nn.Conv2d(channels, 32, kernel_size=5, padding=2), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(32, 64, kernel_size=5, padding=2), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(64 * (height // 4) * (width // 4), self.dense), nn.ReLU()),
            nn.Linear(self.dense, num_classes),
        )
        return glorot(module) if self.init == "glorot" else module
