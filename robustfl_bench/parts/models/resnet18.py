"""ResNet-18 for small images (He, Zhang, Ren, Sun, CVPR 2016, Table 1, https://arxiv.org/abs/1512.03385)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import one_of
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.models.resnet20 import Block, normalisation

CHANNELS = (64, 128, 256, 512)


class ProjectedBlock(Block):
    """Two 3x3 convolutions and a shortcut: the input, or where the shape changes a 1x1 convolution of it (option B)."""

    def __init__(self, before: int, after: int, stride: int, norm: str) -> None:
        super().__init__(before, after, stride, norm)
        self.shortcut = nn.Sequential()
        if before != after:
            self.shortcut.append(nn.Conv2d(before, after, 1, stride, bias=False)).append(normalisation(norm, after))

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps (N, after, H / stride, W / stride)."""
        inside = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        return functional.relu(inside + self.shortcut(x))


@dataclass(frozen=True)
class ResNet18(Model):
    """A 3x3 convolution, then four stages of two blocks with 64 to 512 channels, global average, one dense layer.

    As everybody has it for 32x32 images: the first convolution has a step of one, and no pooling comes behind it. With
    3 channels and 10 classes, the network has 11,173,962 parameters. ``norm`` is that of ResNet20.
    """

    norm: Annotated[
        str, one_of(group="each sample by itself", batch="by the current batch, without running statistics")
    ] = "group"
    """normalisation"""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 3 or min(input_shape[1:]) < 8:
            raise ConfigError(f"model resnet18 needs images (channels, height, width), got inputs of {input_shape}")
        before = CHANNELS[0]
        first = nn.Conv2d(input_shape[0], before, 3, padding=1, bias=False)
        layers: list[nn.Module] = [first, normalisation(self.norm, before), nn.ReLU()]
        for after in CHANNELS:
            layers.append(ProjectedBlock(before, after, 1 if before == after else 2, self.norm))
            layers.append(ProjectedBlock(after, after, 1, self.norm))
            before = after
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes)]
        module = nn.Sequential(*layers)
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d) and not layer.weight.is_meta:
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        return module
