"""Float32 matrix products at the processor's full width.

PyTorch uses MKL, which exploits only half of the vector width on processors not made by Intel. oneDNN, which PyTorch
also includes, is twice as fast there (AMD Zen 5, one core: 250 against 116 GFLOP/s), but has no public name yet. If the
private function is missing or misbehaves, or the product is too small to gain, PyTorch's own product is used.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SMALL = 1 << 20  # multiplications below which preparing the call costs more than it gains
LARGE = 1 << 25  # multiplications below which the call and the copy of its result do


@lru_cache(maxsize=1)
def _onednn() -> Any:
    """oneDNN's function for ``a @ b.T + bias``, or None if it cannot be used."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
        return None
    a, b = torch.arange(8.0).view(2, 4), torch.arange(12.0).view(3, 4)
    try:
        product = torch.ops.mkldnn._linear_pointwise
        right = torch.equal(product(a, b, None, "none", [], ""), a @ b.T)
    except (AttributeError, RuntimeError):
        return None
    return product if right else None


def _faster(a: Tensor, columns: int, least: int) -> Any:
    """oneDNN's function if ``a`` (m, k) times (k, columns) takes at least ``least`` multiplications, else None."""
    large = a.shape[0] * a.shape[1] * columns >= least
    return _onednn() if large and a.device.type == "cpu" and a.dtype == torch.float32 else None


def times_transposed(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """``a @ b.T + bias``, (m, n), of float32 ``a`` (m, k) and ``b`` (n, k), neither with a gradient."""
    if (product := _faster(a, b.shape[0], SMALL)) is not None:
        out: Tensor = product(a, b, bias, "none", [], "")
        return out
    return functional.linear(a, b, bias)


def times_into(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Write ``a @ b`` into ``out`` (m, n), of float32 ``a`` (m, k) and ``b`` (k, n), none with a gradient."""
    if (product := _faster(a, b.shape[1], LARGE)) is not None:
        out.copy_(product(a, b.T, None, "none", [], ""))
    else:
        torch.mm(a, b, out=out)


class _Linear(torch.autograd.Function):
    """A linear layer whose weights are constants."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return times_transposed(x.flatten(0, -2), weight, bias).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (weight,), (delta,) = ctx.saved_tensors, grads
        return times_transposed(delta.flatten(0, -2), weight.T).view(*delta.shape[:-1], -1), None, None


class ConstantWeights(TorchFunctionMode):
    """Context in which linear layers whose weights need no gradient use ``times_transposed``."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is functional.linear and not kwargs and not args[1].requires_grad:
            return _Linear.apply(*args)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))
