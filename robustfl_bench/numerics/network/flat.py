"""A module as a function of one flat parameter vector."""

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call

from robustfl_bench.numerics.products import ConstantWeights

CHUNK = 1024  # samples per pass through the network on a CPU, so that they stay in the cache
CONVOLUTIONS_CHUNK = 128  # the same with convolutions; twice as fast as 1024
ROOM = 1 << 29  # numbers that a step on a GPU keeps for autograd, and as many for the gradients: 2 GiB each


class FlatModule:
    """A module with its parameters in one vector (d,), in the order of ``module.parameters()``.

    ``initial`` is the initial parameter vector of the module, ``dim`` its length d. ``slots`` has the offset in it and
    the shape of each parameter.
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
        self._numbers: dict[torch.Size, int] = {}
        self._tie()

    def _tie(self) -> None:
        """Make the module's parameters views of one vector, so that setting all of them takes one copy."""
        self._held = self.initial.clone()
        for parameter, view in zip(self.module.parameters(), self.views(self._held).values(), strict=True):
            parameter.data = view

    def move(self, device: torch.device) -> None:
        """Move buffers and parameters to ``device``."""
        self.module.to(device)
        self.initial = self.initial.to(device)
        self._tie()

    def hold(self, params: Tensor) -> nn.Module:
        """The module with the parameters ``params`` (d,), until the next call."""
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
        """The number of samples that go through the network together."""
        if x.device.type != "cpu":
            return max(1, ROOM // (self._kept(x) + x[0].numel()))
        return CONVOLUTIONS_CHUNK if self._convolutional else CHUNK

    def _kept(self, x: Tensor) -> int:
        """The number of values that autograd keeps per sample of the shape of those in ``x``."""
        if x.shape[1:] not in self._numbers:
            few, more = (self._kept_of(x[:1].expand(number, *x.shape[1:])) for number in (2, 4))
            self._numbers[x.shape[1:]] = (more - few) // 2  # without the parameters
        return self._numbers[x.shape[1:]]

    def _kept_of(self, x: Tensor) -> int:
        numbers = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal numbers
            numbers += tensor.numel()
            return tensor

        with torch.enable_grad(), saved_tensors_hooks(count, lambda tensor: tensor):
            self.module(x)
        return numbers


def flat_parameters(module: nn.Module) -> Tensor:
    """All parameters of a module in one vector (d,), copied."""
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])
