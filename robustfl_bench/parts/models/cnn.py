"""The 5-layer convolutional network of the TensorFlow CNN tutorial, used by BOBA and ARFL for CIFAR-10."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.initialisation import INITS, glorot
from robustfl_bench.parts.models.layout import ChannelsLast, side_in_use


@dataclass(frozen=True)
class Cnn(Model):
    """3x3 convolutions with ReLU and without padding, 2x2 max-pooling in all but the last, then two dense layers.

    The defaults give 122,570 parameters for 3 x 32 x 32 inputs and 10 classes. The tutorial (Keras) has ``init``
    glorot.
    """

    channels: Annotated[tuple[int, ...], at_least(1)] = (32, 64, 64)
    """filters of the 3x3 convolutions; 2x2 max-pooling after all but the last"""
    dense: Annotated[int, at_least(1)] = 64
    """width of the hidden dense layer"""
    init: Annotated[str, one_of(**INITS)] = "pytorch"
    """initial weights"""

    def __post_init__(self) -> None:
        if not self.channels:
            raise ConfigError("channels must not be empty")

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 3:
            raise ConfigError(f"model cnn needs images (channels, height, width), got inputs of shape {input_shape}")
        channels, height, width = input_shape
        blocks = [(3, 2)] * (len(self.channels) - 1) + [(3, 1)]
        layers: list[nn.Module] = [ChannelsLast(side_in_use(height, blocks), side_in_use(width, blocks))]
        for filters, (kernel, pooling) in zip(self.channels, blocks, strict=True):
            layers.append(nn.Conv2d(channels, filters, kernel))
            layers += [nn.MaxPool2d(pooling), nn.ReLU()] if pooling > 1 else [nn.ReLU()]  # ReLU on a quarter
            channels, height, width = (filters, *((side - kernel + 1) // pooling for side in (height, width)))
            if min(height, width) < 1:
                raise ConfigError(
                    f"model cnn with {len(self.channels)} convolutions needs larger images than {input_shape[1:]}; "
                    "take fewer channels (model.channels) or model=mlp"
                )
        size = torch.Size([channels, height, width]).numel()
        layers += [nn.Flatten(), nn.Linear(size, self.dense), nn.ReLU(), nn.Linear(self.dense, num_classes)]
        module = nn.Sequential(*layers)
        return glorot(module) if self.init == "glorot" else module
