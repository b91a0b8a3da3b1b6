"""VGG16 (Simonyan and Zisserman, ICLR 2015, configuration D, https://arxiv.org/abs/1409.1556) for small images."""

from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Annotated

import torch
from torch import Tensor, nn

from robustfl_bench.base.errors import ConfigError, one_line
from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.models.base import Model

WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
CELLS = 49  # of the 7x7 map that the dense layers of the original read


@dataclass(frozen=True)
class Vgg16(Model):
    """13 convolutions of 3x3 in five groups, each ending with 2x2 max-pooling, then dense layers of ``dense`` units.

    The dropout of the original is left out. The convolutions reduce 32x32 images to one cell, so the first dense layer
    has 512 inputs, not 25,088, and with 100 classes there are 34.0 million parameters, not 134.7.

    ``weights`` names a file of trained weights, a state as saved by PyTorch (``features.0.weight`` ...
    ``classifier.6.bias``, the names of torchvision). It may hold only tensors. The weights of a first dense layer for
    7x7 cells are summed over the cells, which is the same as repeating the one cell. If the file has an output layer
    for another number of classes, the output layer keeps its initial weights.
    """

    dense: Annotated[tuple[int, ...], at_least(1)] = (4096, 4096)
    """widths of the hidden dense layers"""
    weights: str | None = None
    """a file of trained weights, with torchvision's parameter names; null: random"""

    def __post_init__(self) -> None:
        if self.weights is not None and not Path(self.weights).is_file():
            raise ConfigError(f"model.weights: there is no file {self.weights}; name a file of weights, or null")

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 3 or min(input_shape[1:]) < 32:
            raise ConfigError(f"model vgg16 needs images of 32x32 or more, got inputs of shape {input_shape}")
        channels, height, width = input_shape
        features: list[nn.Module] = []
        for group in WIDTHS:
            for filters in group:
                features += [nn.Conv2d(channels, filters, kernel_size=3, padding=1), nn.ReLU()]
                channels = filters
            features.insert(-1, nn.MaxPool2d(2))  # before ReLU, which is then taken on a quarter
        size = channels * (height // 32) * (width // 32)
        layers: list[nn.Module] = []
        for units in self.dense:
            layers += [nn.Linear(size, units), nn.ReLU(), nn.Identity()]  # torchvision has dropout in the third place
            size = units
        names = {"features": nn.Sequential(*features), "flatten": nn.Flatten()}
        module = nn.Sequential()
        for name, part in (names | {"classifier": nn.Sequential(*layers, nn.Linear(size, num_classes))}).items():
            module.add_module(name, part)
        if self.weights is not None and not next(module.parameters()).is_meta:
            module.load_state_dict(self._fitted(module))
        return module

    def _fitted(self, module: nn.Module) -> dict[str, Tensor]:
        """The file's weights in the shapes of the module, with the module's own output layer if the shapes differ."""
        try:
            held = torch.load(str(self.weights), map_location="cpu", weights_only=True)
        except (RuntimeError, UnpicklingError, EOFError, ValueError) as error:
            reason = one_line(error)[:200]
            raise ConfigError(f"model.weights: {self.weights} cannot be read as a file of tensors: {reason}") from error
        own = module.state_dict()
        if not isinstance(held, dict) or set(held) != set(own) or not all(isinstance(v, Tensor) for v in held.values()):
            raise ConfigError(f"model.weights: {self.weights} must hold tensors named {', '.join(list(own)[:2])} ...")
        output = f"classifier.{3 * len(self.dense)}."
        if held[f"{output}bias"].shape != own[f"{output}bias"].shape:
            held |= {name: value for name, value in own.items() if name.startswith(output)}
        first = held["classifier.0.weight"]
        if first.dim() == 2 and first.shape[1] == CELLS * own["classifier.0.weight"].shape[1]:
            held["classifier.0.weight"] = first.unflatten(1, (-1, CELLS)).sum(dim=2)
        for name, value in own.items():
            if held[name].shape != value.shape:
                shapes = f"{tuple(held[name].shape)}, not {tuple(value.shape)}"
                raise ConfigError(f"model.weights: in {self.weights} {name} has the shape {shapes}")
        return {name: value.to(torch.float32) for name, value in held.items()}
