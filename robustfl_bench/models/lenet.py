"""LeNet: two convolutions, two poolings, three dense layers (LeCun et al., Proc. IEEE 1998), with ReLU and
max-pooling."""

from dataclasses import dataclass

import torch
from torch import nn

from robustfl_bench.base.errors import ConfigError, check_flags
from robustfl_bench.models.base import Model
from robustfl_bench.models.layout import ChannelsLast


@dataclass(frozen=True)
class LeNet(Model):
    """Convolutions without padding, each with ReLU and 2x2 max-pooling, then dense layers with ReLU, then the outputs.

    The defaults are RAGA's for MNIST (Zuo et al., arXiv 2403.13374): 5x5 convolutions of 6 and 16 channels, dense
    layers of 120 and 60 units (the original has 84), 41,282 parameters. For CIFAR-10, RAGA uses channels 64, 64
    and dense 384, 192: 797,962 parameters. The paper does not state the activation and the kind of pooling.

    ``channels_last`` sets the memory layout of feature maps. On a CPU, gradients then take two thirds of the time that
    they take in PyTorch's own layout, predictions less than half, and sums are rounded in another order.
    """

    channels: tuple[int, ...] = (6, 16)
    dense: tuple[int, ...] = (120, 60)
    kernel: int = 5
    channels_last: bool = True

    def __post_init__(self) -> None:
        check_flags(self, "channels_last")
        widths = [*self.channels, *self.dense, self.kernel]
        if not self.channels or not all(isinstance(width, int) and width >= 1 for width in widths):
            raise ConfigError(
                f"model.channels, model.dense and model.kernel must be positive whole numbers, got {widths}"
            )

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
