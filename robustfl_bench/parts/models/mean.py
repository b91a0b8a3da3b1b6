"""Mean estimation: one vector that should be close to all samples."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.models.base import Model


class Constant(nn.Module):
    """The same output for every input: a vector, which is the parameter."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.vector.expand(len(x), -1)


@dataclass(frozen=True)
class Mean(Model):
    """A trained vector, initially standard normal, for a data set whose samples are their own targets.

    Under squared error, a client's gradient is twice the difference between the vector and the client's mean (BRIFCA,
    Tao et al., arXiv 2306.00638, section 5.3).
    """

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if input_shape != (num_classes,):
            raise ConfigError(
                f"model mean needs vectors that are their own targets, got inputs of shape {input_shape} and "
                f"{num_classes} outputs; take dataset=mean_mixture"
            )
        return Constant(num_classes)
