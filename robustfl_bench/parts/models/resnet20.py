"""ResNet-20 for small images (He, Zhang, Ren, Sun, CVPR 2016, section 4.2, https://arxiv.org/abs/1512.03385)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import one_of
from robustfl_bench.parts.models.base import Model

GROUPS = 8


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut without parameters: every ``stride``-th pixel, zeros for new channels."""

    def __init__(self, before: int, after: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = normalisation(norm, after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = normalisation(norm, after)
        self.stride, self.added = stride, after - before

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps (N, after, H / stride, W / stride)."""
        inside = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        return functional.relu(inside + shortcut)


class GroupNorm(nn.GroupNorm):
    """Group normalisation of the feature maps (N, channels, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.device.type == "cpu" else self._by_group(x)

    def _by_group(self, x: Tensor) -> Tensor:
        """The same, in operations that take many clients at once: PyTorch takes group normalisation with a scale of
        each client apart into some 30, and only layer normalisation stays whole."""
        groups = x.unflatten(1, (self.num_groups, -1)).flatten(2)
        normal = functional.layer_norm(groups, groups.shape[2:], eps=self.eps).view_as(x)
        return torch.addcmul(self.bias[:, None, None], normal, self.weight[:, None, None])


def normalisation(norm: str, channels: int) -> nn.Module:
    """A layer that normalises ``channels`` feature maps, with a scale and a shift for each."""
    if norm == "group":
        return GroupNorm(GROUPS, channels)
    return nn.BatchNorm2d(channels, track_running_stats=False)


@dataclass(frozen=True)
class ResNet20(Model):
    """A 3x3 convolution, then three stages of three blocks with 16, 32, 64 channels, global average, one dense layer.

    The shortcuts have no parameters (the paper's option A). With 3 channels and 10 classes, the network has 269,722.

    ``norm`` group normalises every sample by itself, in 8 groups of channels. ``batch`` is the original's batch
    normalisation without running statistics, which are no parameters, would not be aggregated and differ between
    clients. Gradients use the statistics of the client's batch. Tests use those of the images that pass through the
    network together, so a prediction depends a little on the other images.
    """

    norm: Annotated[
        str, one_of(group="each sample by itself", batch="by the current batch, without running statistics")
    ] = "group"
    """normalisation"""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise ConfigError(f"model resnet20 needs images (channels, height, width), got inputs of {input_shape}")
        layers: list[nn.Module] = [nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False)]
        layers += [normalisation(self.norm, 16), nn.ReLU()]
        before = 16
        for after in (16, 32, 64):
            for _ in range(3):
                layers.append(Block(before, after, 1 if before == after else 2, self.norm))
                before = after
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, num_classes)]
        module = nn.Sequential(*layers)
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d) and not layer.weight.is_meta:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        return module
