"""Dropout on a CPU with a random stream for each client, so that clients can train on several threads."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

KINDS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


def has_dropout(module: nn.Module) -> bool:
    """Whether a module has dropout layers."""
    return any(isinstance(layer, _DropoutNd) for layer in module.modules())


def draws_by_stream(module: nn.Module) -> bool:
    """Whether the draws of all dropout layers of a module can come from a given stream."""
    return all(type(layer) in KINDS for layer in module.modules() if isinstance(layer, _DropoutNd))


class Dropout:
    """The dropout layers of a module in evaluation mode, which are active while there is a ``stream``.

    A stream with some seed gives the same draws as PyTorch's global generator with this seed.
    """

    def __init__(self, module: nn.Module) -> None:
        self.stream: torch.Generator | None = None
        for layer in module.modules():
            if type(layer) in KINDS:
                layer.register_forward_hook(self._dropped)

    def factors(self, layer: Any, x: Tensor) -> Tensor | None:
        """The factors of the input of a dropout layer, newly drawn; None if it passes unchanged."""
        if self.stream is None or layer.p == 0:
            return None
        factors = torch.empty_like(x) if type(layer) is nn.Dropout else x.new_empty(*x.shape[:2], *[1] * (x.dim() - 2))
        if layer.p == 1:
            return factors.zero_()
        return factors.bernoulli_(1 - layer.p, generator=self.stream).div_(1 - layer.p)

    def _dropped(self, layer: nn.Module, _: Any, output: Tensor) -> Tensor | None:
        factors = self.factors(layer, output)
        return None if factors is None else output * factors
