"""A convolutional network with dropout for MNIST (Karimireddy, He, Jaggi, ICLR 2022, arXiv 2006.09365)."""

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.layout import ChannelsLast


@dataclass(frozen=True)
class DropoutCnn(Model):
    """3x3 convolutions of 32 and 64 channels without padding, 2x2 max-pooling, a dense layer and the outputs.

    ReLU follows the first convolution and the dense layer. In training, a share ``channel_dropout`` of the pooled
    channels and a share ``dropout`` of the ``dense`` hidden units are set to zero. For 1 x 28 x 28 images and 10
    classes, there are 1,199,882 parameters.

    Code: the authors' is followed here; it has no ReLU after the second convolution.
    """

    dense: Annotated[int, at_least(1)] = 128
    """width of the hidden dense layer"""
    channel_dropout: Annotated[float, between(0, 1)] = 0.25
    """share of the convolutions' channels that are dropped in a training step"""
    dropout: Annotated[float, between(0, 1)] = 0.5
    """share of the hidden units that are dropped"""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 3 or min(input_shape[1:]) < 6:
            raise ConfigError(f"model dropout_cnn needs images of at least 6 x 6, got inputs of shape {input_shape}")
        channels, height, width = input_shape
        return nn.Sequential(
            ChannelsLast(),
            *(nn.Conv2d(channels, 32, kernel_size=3), nn.ReLU(), nn.Conv2d(32, 64, kernel_size=3)),
            *(nn.MaxPool2d(2), nn.Dropout2d(self.channel_dropout), nn.Flatten()),
            *(nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), self.dense), nn.ReLU()),
            *(nn.Dropout(self.dropout), nn.Linear(self.dense, num_classes)),
        )
