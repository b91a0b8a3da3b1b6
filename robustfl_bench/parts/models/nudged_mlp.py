"""Multi-layer perceptrons whose initial parameters are moved by units in the last place, to show numerical error
(ours)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.models.mlp import Mlp


@dataclass(frozen=True)
class NudgedMlp(Mlp):
    """The perceptron ``mlp``, with every initial parameter replaced by the next larger float32 number, ``ulps`` times.

    A run with it differs from the same run with ``mlp`` in nothing but rounding: about 1e-7 of each parameter. Where
    the results differ by more, the training amplifies rounding errors, and another processor or library can change the
    result as much.
    """

    ulps: Annotated[int, at_least(0)] = 1
    """units in the last place by which each initial parameter moves; 0: as mlp"""

    def __call__(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        module = super().__call__(input_shape, num_classes)
        with torch.no_grad():
            for values in module.parameters():
                for _ in range(self.ulps):
                    values.copy_(values.nextafter(torch.full_like(values, torch.inf)))
        return module
