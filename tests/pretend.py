"""A GPU that is not there: tensors that say they are on ``cuda:0`` and compute on the CPU.

Like the real one it refuses to mix devices and to become NumPy arrays, and it counts how often the host waits for it.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("pretended")
DEVICE = torch.device("pretended:0")
aten = torch.ops.aten
WAITS = {aten._local_scalar_dense, aten.nonzero, aten._unique2, aten.unique_dim, aten.equal, aten.masked_select}
"""Operations whose result the host needs: a value, or a shape."""


class Pretended(Tensor):
    """A tensor on the pretended GPU around one on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Pretended":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    def __repr__(self, **_: Any) -> str:
        return f"Pretended({self.inner})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, Counter())


class PretendedGpu(TorchDispatchMode):
    """While it is entered there is a GPU ``cuda:0``; ``waits`` counts what makes the host wait, by operation."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __enter__(self) -> "PretendedGpu":
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=) makes it on the CPU, then moves it
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch._C._set_only_lift_cpu_tensors(False)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, self.waits)


def _run(func: Any, args: Any, kwargs: Any, waits: Counter[str]) -> Any:
    tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
    here = any(isinstance(tensor, Pretended) for tensor in tensors)
    wanted = kwargs.get("device")
    there = here if wanted is None else torch.device(wanted).type == "pretended"
    packet = func.overloadpacket
    moves = packet in (aten._to_copy, aten.copy_)
    if here and not moves:
        loose = [t for t in tensors if not isinstance(t, Pretended) and t.dim()]
        if loose and packet not in (aten.index, aten.index_put_, aten.index_put):
            raise RuntimeError(f"{func}: tensors on the GPU and on the CPU, {[tuple(t.shape) for t in loose]}")
        if loose:
            waits[f"{packet} by an index on the CPU"] += 1
    if here and packet in WAITS:
        waits[str(packet)] += 1
    if (
        here
        and packet in (aten.index, aten.index_put_, aten.index_put)
        and any(t is not None and t.dtype == torch.bool for t in args[1])
    ):
        waits["a mask as an index"] += 1
    if packet is aten._to_copy and here and not there:
        waits["copied to the CPU"] += 1
    if packet is aten.copy_ and isinstance(args[1], Pretended) and not isinstance(args[0], Pretended):
        waits["copied to the CPU"] += 1
        there = False
    if wanted is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    plain_args, plain_kwargs = tree_map(_inner, (args, kwargs))
    out = func(*plain_args, **plain_kwargs)
    if not there:
        return out
    out = tree_map(lambda value: Pretended(value) if isinstance(value, Tensor) else value, out)
    return return_and_correct_aliasing(func, args, kwargs, out) if here else out


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, Pretended) else value
