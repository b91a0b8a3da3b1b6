"""Mean estimation: one vector that is to be close to all samples."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robustfl_bench.interfaces import ConfigError, Model


class Constant(nn.Module):
    """The same output for every input: a vector, which is its parameter."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.vector.expand(len(x), -1)


@dataclass(frozen=True)
class Mean(Model):
    """A vector, standard normal at first, for a data set whose samples are their own targets.

    Under squared error its gradient at one client is twice its distance from the client's mean (BRIFCA, Tao et al.,
    arXiv 2306.00638, section 5.3).
    """

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if input_shape != (num_classes,):
            raise ConfigError(
                f"model mean needs vectors that are their own targets, got inputs of shape {input_shape} and "
                f"{num_classes} outputs; take dataset=mean_mixture"
            )
        return Constant(num_classes)
