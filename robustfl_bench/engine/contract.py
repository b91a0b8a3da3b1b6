"""What the parts of a run return, checked against what their base classes promise when each acts for the first time."""

import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from robustfl_bench.errors import BrokenContract
from robustfl_bench.interfaces import Crafted
from robustfl_bench.updates import Aggregate, Updates

Returned = TypeVar("Returned")


class Contract:
    """Checks the first call of each kind of part in a process: it costs two readings of the round's matrix."""

    def __init__(self) -> None:
        self._kept: set[str] = set()

    def call(
        self,
        kind: str,
        part: object,
        given: Tensor,
        work: Callable[[], Returned],
        fault: Callable[[Returned], str],
    ) -> Returned:
        """What ``work`` returns. Raises BrokenContract where ``fault`` finds one, or where the matrix ``given`` (n, d)
        was written to."""
        if kind in self._kept:
            return work()
        before = _checksum(given)
        returned = work()
        wrong = fault(returned) or ("" if _checksum(given) == before else "wrote into the updates that it was given")
        if wrong:
            raise BrokenContract(f"{kind} {type(part).__name__} {wrong}")
        self._kept.add(kind)
        return returned


def aggregate_fault(aggregate: object, updates: Updates) -> str:
    """What is wrong with the aggregate that a rule made of the ``updates`` of all clients; empty if nothing is."""
    if not isinstance(aggregate, Aggregate):
        return f"returned a {type(aggregate).__name__}, no Aggregate: updates.combine(weights) makes one"
    remembered = aggregate.memory if aggregate.memory is not None else {}
    if not (isinstance(remembered, dict) and all(isinstance(value, Tensor) for value in remembered.values())):
        return "returned a memory that is no dict of tensors"
    like, n = updates.matrix, updates.n
    return (
        _tensor_fault("a vector", aggregate.vector, [(updates.d,)], like.dtype, like.device)
        or (_tensor_fault("weights", aggregate.weights, [(n,)], torch.float64) if aggregate.weights is not None else "")
        or (_tensor_fault("accepted", aggregate.accepted, [(n,)], torch.bool) if aggregate.accepted is not None else "")
    )


def crafted_fault(crafted: object, num_byzantine: int, like: Tensor) -> str:
    """What is wrong with what an attack sends, beside updates ``like`` (h, d); empty if nothing is."""
    rows = crafted.rows if isinstance(crafted, Crafted) else crafted
    shapes = [(num_byzantine, like.shape[1]), (like.shape[1],)]
    return _tensor_fault("rows", rows, shapes, like.dtype, like.device)


def mixed_fault(mixed: object, updates: Updates) -> str:
    """What is wrong with what a pre-aggregation made of ``updates``; empty if nothing is."""
    if not isinstance(mixed, Updates):
        return f"returned a {type(mixed).__name__}, no Updates: updates.mix(mixing) makes them"
    if not mixed.n or mixed.d != updates.d:
        return f"returned {mixed.n} updates of length {mixed.d}; at least one of length {updates.d} is needed"
    return _tensor_fault("counts", mixed.counts, [(mixed.n,)], torch.float64)


def _tensor_fault(
    what: str,
    value: Any,
    shapes: list[tuple[int, ...]],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> str:
    wanted = f"{' or '.join(map(str, shapes))} {dtype}".replace("torch.", "")
    if not isinstance(value, Tensor):
        return f"returned {what} that are a {type(value).__name__}; a tensor {wanted} is needed"
    if tuple(value.shape) not in shapes or value.dtype != dtype:
        got = f"{tuple(value.shape)} {value.dtype}".replace("torch.", "")
        return f"returned {what} of shape {got}; {wanted} is needed"
    if device is not None and value.device != device:
        return f"returned {what} on {value.device}; the updates are on {device}"
    return ""


def _checksum(matrix: Tensor) -> int:
    """A number that changes with any entry of the matrix, whatever its device."""
    total = 0
    for row in matrix:
        total = zlib.crc32(row.cpu().contiguous().numpy(), total)
    return total
