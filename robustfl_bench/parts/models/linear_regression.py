"""Linear regression: prediction of one number by a linear function of the inputs."""

from dataclasses import dataclass

from torch import nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.models.base import Model


@dataclass(frozen=True)
class LinearRegression(Model):
    """``<x, theta>`` without an intercept, for a data set with one number per sample to predict."""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(input_shape) != 1 or num_classes != 1:
            raise ConfigError(
                f"model linear_regression needs vectors and one number to predict, got inputs of shape {input_shape} "
                f"and {num_classes} outputs; take dataset=linear_mixture, or model=linear for classes"
            )
        return nn.Linear(input_shape[0], 1, bias=False)
