"""A module as a function of one flat parameter vector."""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.dropout import _DropoutNd

from robustfl_bench.numerics.products import ConstantWeights

CHUNK = {"cpu": 1024, "cuda": 1 << 16}  # samples that go through the network together: what stays in the cache
CONVOLUTIONS_CHUNK = 128  # the same on a CPU where there are feature maps: twice as fast as 1024


class FlatModule:
    """A module with its parameters in one vector (d,), in the order of ``module.parameters()``.

    ``initial`` is the vector that the module came with, ``dim`` its length d. ``slots`` say where each parameter
    begins in it, and which shape it has.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module.eval()
        self.initial = flat_parameters(module)
        self.dim = len(self.initial)
        self.slots: dict[str, tuple[int, torch.Size]] = {}
        start = 0
        for name, parameter in module.named_parameters():
            self.slots[name] = (start, parameter.shape)
            start += parameter.numel()
        self._convolutional = any(isinstance(layer, nn.Conv2d) for layer in module.modules())
        self._tie()

    def _tie(self) -> None:
        """Make the module's parameters parts of one vector, so that any others are one copy away."""
        self._held = self.initial.clone()
        for parameter, view in zip(self.module.parameters(), self.views(self._held).values(), strict=True):
            parameter.data = view

    def move(self, device: torch.device) -> None:
        """Move buffers and parameters to ``device``."""
        self.module.to(device)
        self.initial = self.initial.to(device)
        self._tie()

    def hold(self, params: Tensor) -> nn.Module:
        """The module with the parameters ``params`` (d,), until it is given others."""
        self._held.copy_(params)
        return self.module

    def views(self, params: Tensor) -> dict[str, Tensor]:
        """The named parameters as views of the flat vector(s) ``params`` (..., d)."""
        return {
            name: params[..., start : start + shape.numel()].view(*params.shape[:-1], *shape)
            for name, (start, shape) in self.slots.items()
        }

    def logits(self, params: Tensor, x: Tensor) -> Tensor:
        """Outputs (N, c) of the model ``params`` (d,)."""
        with ConstantWeights():
            out: Tensor = functional_call(self.module, self.views(params), (x,))
        return out

    def chunk(self, x: Tensor) -> int:
        """How many samples go through the network together."""
        return CONVOLUTIONS_CHUNK if self._convolutional and x.device.type == "cpu" else CHUNK[x.device.type]


def flat_parameters(module: nn.Module) -> Tensor:
    """All parameters of a module in one vector (d,), copied."""
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def has_dropout(module: nn.Module) -> bool:
    """Whether a module draws at random, by the layer or by the channel, when it is trained."""
    return any(isinstance(layer, _DropoutNd) for layer in module.modules())
