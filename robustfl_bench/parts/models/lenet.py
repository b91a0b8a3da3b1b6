"""LeNet: two convolutions, two poolings, three dense layers (LeCun et al., Proc. IEEE 1998), with ReLU and
max-pooling."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, at_least
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.layout import ChannelsLast


@dataclass(frozen=True)
class LeNet(Model):
    """Convolutions without padding, each with ReLU and 2x2 max-pooling, then dense layers with ReLU, then the outputs.

    The defaults are RAGA's for MNIST (Zuo et al., arXiv 2403.13374): 5x5 convolutions of 6 and 16 channels, dense
    layers of 120 and 60 units (the original has 84), 41,282 parameters. For CIFAR-10, RAGA uses channels 64, 64 and
    dense 384, 192: 797,962 parameters. The paper does not state the activation and the kind of pooling.

    With ``channels_last``, gradients on a CPU take two thirds of the time that they take in PyTorch's own layout,
    predictions less than half, and sums are rounded in another order.
    """

    channels: Annotated[tuple[int, ...], at_least(1)] = (6, 16)
    """filters of the convolutions, each followed by 2x2 max-pooling"""
    dense: Annotated[tuple[int, ...], at_least(1)] = (120, 60)
    """widths of the hidden dense layers"""
    kernel: Annotated[int, at_least(1)] = 5
    """side of the convolutions"""
    channels_last: Flag = True
    """memory layout of feature maps; true: faster on a CPU, with other rounding"""

    def __post_init__(self) -> None:
        if not self.channels:
            raise ConfigError("channels must not be empty")

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 3:
            raise ConfigError(f"model lenet needs images (channels, height, width), got inputs of shape {input_shape}")
        layers: list[nn.Module] = [ChannelsLast()] if self.channels_last else []
        channels, height, width = input_shape
        for filters in self.channels:
            layers += [nn.Conv2d(channels, filters, self.kernel), nn.MaxPool2d(2), nn.ReLU()]  # ReLU on a quarter
            channels, height, width = (filters, *((side - self.kernel + 1) // 2 for side in (height, width)))
            if min(height, width) < 1:
                raise ConfigError(
                    f"model lenet with {len(self.channels)} convolutions of {self.kernel}x{self.kernel} needs larger "
                    f"images than {input_shape[1:]}; take a smaller model.kernel, or model=mlp"
                )
        layers.append(nn.Flatten())
        size = torch.Size([channels, height, width]).numel()
        for units in self.dense:
            layers += [nn.Linear(size, units), nn.ReLU()]
            size = units
        return nn.Sequential(*layers, nn.Linear(size, num_classes))
