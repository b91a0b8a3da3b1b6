"""Checks of the parts of a run against the contracts of their base classes: in every round of what they return, and on
their first call of what they do to what they are given and to themselves."""

import copy
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import BrokenContract, Diverged
from robustfl_bench.base.read_only import called
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates, all_finite
from robustfl_bench.parts.aggregators.base import Aggregator, no_aggregate
from robustfl_bench.parts.attacks.base import Crafted
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.protocols.state import Round, State

Returned = TypeVar("Returned")


class Contract:
    """Checks each call of a part, and the first one of each kind in a process at the cost of two passes over the
    round's matrix."""

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
        """Returns the result of ``work``. Raises BrokenContract if ``fault`` finds a fault in it, and on the first call
        if the matrix ``given`` (n, d) was changed, or if the part keeps state on itself."""
        if kind in self._kept:
            returned = work()
            wrong = fault(returned)
        else:
            before, state = _checksum(given), _state(part)
            returned = work()
            wrong = fault(returned)
            wrong = wrong or ("" if _checksum(given) == before else "wrote into the updates that it was given")
            wrong = wrong or state_fault(state, _state(part))
        if wrong:
            raise BrokenContract(f"{called(part)} {wrong}")
        self._kept.add(kind)
        return returned


def _state(part: object) -> Mapping[str, Any]:
    """A copy of the attributes of a part, without cached properties; empty for a part with ``memory`` in ``exempt``."""
    if "memory" in getattr(part, "exempt", {}):
        return {}
    held = {name: value for name, value in getattr(part, "__dict__", {}).items()
            if not isinstance(getattr(type(part), name, None), cached_property)}  # fmt: skip
    return {name: _copied(value) for name, value in held.items()}


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, a view of a mapping, ...: compared by identity
        return value


def state_fault(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The attributes of itself that a part changed, as a message; empty if none. A resumed run would lose these
    changes."""
    names = [name for name in {**before, **after}
             if name not in before or name not in after or not alike(before[name], after[name])]  # fmt: skip
    told = ", ".join(names)
    return f"keeps {told} on itself, which is lost when a run resumes; return it as memory" if names else ""


def alike(first: Any, second: Any) -> bool:
    """Whether two copies of a value are equal, nan to nan; objects without an ``__eq__`` are compared by their
    attributes."""
    if type(first) is not type(second):
        return False
    if isinstance(first, Tensor | np.ndarray):
        return first.shape == second.shape and bool(((first == second) | (first != first) & (second != second)).all())
    if isinstance(first, np.random.Generator):
        return bool(first.bit_generator.state == second.bit_generator.state)
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(alike(first[name], second[name]) for name in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(alike, first, second))
    if type(first).__eq__ is object.__eq__:  # type: ignore[comparison-overlap]
        return alike(getattr(first, "__dict__", {}), getattr(second, "__dict__", {}))
    return bool(first == second)


def dealt(partition: Partition, found: Sequence[np.ndarray], clients: int, samples: int) -> list[np.ndarray]:
    """The checked result ``found`` of a partition, the samples of each client. Raises BrokenContract unless all
    ``clients`` have existing samples and no sample is given twice."""
    fault, parts = "", list(found)
    if len(parts) != clients:
        fault = f"gave {len(parts)} clients samples, expected {clients}"
    elif not all(isinstance(part, np.ndarray) and np.issubdtype(part.dtype, np.integer) for part in parts):
        fault = "must give an array of whole numbers for each client: the places of its samples"
    elif any(len(part) and (part.min() < 0 or part.max() >= samples) for part in parts):
        fault = f"gave a sample that there is not: places go from 0 to {samples - 1}"
    elif sum(map(len, parts)) and np.bincount(np.concatenate(parts)).max() > 1:
        fault = "gave a sample to two clients, or twice to one"
    elif "empty" not in partition.exempt and not all(map(len, parts)):
        fault = "gave a client no samples"
    if fault:
        raise BrokenContract(f"{called(partition)} {fault}")
    return parts


def protocol_fault(returned: object, before: State) -> str:
    """The fault of what a protocol's ``step`` returned for the state ``before``; empty if there is none."""
    if not (isinstance(returned, tuple) and [type(item) for item in returned] == [State, Round]):
        return "must return the next State and a Round: engine.after(state, cohorts, models) makes both"
    after, happened = returned
    if (after.round, happened.number) != (before.round + 1, before.round + 1):
        return f"made round {happened.number} and a state after {after.round} rounds, expected {before.round + 1}"
    if not all(isinstance(value, Tensor) for value in after.protocol.values()):
        return "must remember tensors only: State.protocol is stored in checkpoints"
    like = before.params
    return _tensor_fault("models", after.params, [tuple(like.shape)], like.dtype, like.device)


def aggregate_fault(aggregate: object, updates: Updates) -> str:
    """The fault of the aggregate that a rule returned for the ``updates`` of all clients; empty if there is none."""
    if not isinstance(aggregate, Aggregate):
        return no_aggregate(aggregate)
    remembered = aggregate.memory if aggregate.memory is not None else {}
    if not (isinstance(remembered, dict) and all(isinstance(value, Tensor) for value in remembered.values())):
        return "returned a memory that is no dict of tensors"
    like, n = updates.columns, updates.n
    return (
        _tensor_fault("a vector", aggregate.vector, [(like.shape[1],)], like.dtype, like.device)
        or (_tensor_fault("weights", aggregate.weights, [(n,)], torch.float64) if aggregate.weights is not None else "")
        or (_tensor_fault("accepted", aggregate.accepted, [(n,)], torch.bool) if aggregate.accepted is not None else "")
    )


def vectors_fault(vectors: object, questions: Questions) -> str:
    """The fault of a rule's answers to the ``questions`` of attackers; empty if there is none."""
    like = questions.rows
    return _tensor_fault("vectors", vectors, [(len(questions), questions.d)], like.dtype, like.device)


def nodes_fault(vectors: object, like: Tensor) -> str:
    """The fault of a rule's vectors at all nodes, whose models are ``like`` (h, d); empty if there is none."""
    return "" if vectors is None else _tensor_fault("vectors", vectors, [tuple(like.shape)], like.dtype, like.device)


def crafted_fault(crafted: object, num_byzantine: int, like: Tensor) -> str:
    """The fault of the uploads of an attack, given honest updates ``like`` (h, d); empty if there is none."""
    rows = crafted.rows if isinstance(crafted, Crafted) else crafted
    shapes = [(num_byzantine, like.shape[1]), (like.shape[1],)]
    return _tensor_fault("rows", rows, shapes, like.dtype, like.device)


def mixed_fault(mixed: object, updates: Updates) -> str:
    """The fault of the result of a pre-aggregation of ``updates``; empty if there is none."""
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
    if not isinstance(value, Tensor) or tuple(value.shape) not in shapes or value.dtype != dtype:
        wanted = f"{' or '.join(map(str, shapes))} {dtype}".replace("torch.", "")
        if not isinstance(value, Tensor):
            return f"returned {what} that are a {type(value).__name__}; a tensor {wanted} is needed"
        got = f"{tuple(value.shape)} {value.dtype}".replace("torch.", "")
        return f"returned {what} of shape {got}; {wanted} is needed"
    if device is not None and value.device != device:
        return f"returned {what} on {value.device}; the updates are on {device}"
    return ""


def _checksum(matrix: Tensor) -> int:
    """A checksum of the matrix that is the same on every device."""
    total = 0
    for row in matrix:
        total = zlib.crc32(row.cpu().contiguous().numpy(), total)
    return total


HUGE = torch.finfo(torch.float32).max ** 0.5
"""Squares of larger numbers overflow in float32."""


def non_finite_aggregate(rule: Aggregator, updates: Updates, number: int) -> Exception:
    """The error for a non-finite aggregate: Diverged if the updates are so large that float32 overflows, else
    BrokenContract of the rule."""
    what, largest = f"{called(rule)} returned a non-finite aggregate", largest_of(updates)
    if largest < HUGE:
        return BrokenContract(f"{what} in round {number}, from finite updates of at most {largest:.0e}")
    return Diverged(number, f"{what}, from updates of up to {largest:.0e}")


def largest_of(updates: Updates) -> float:
    """The largest absolute value of an entry."""
    return float(torch.stack([*updates.columns.aminmax()]).abs().max())


def require_finite(values: Tensor, round: int, otherwise: str) -> Tensor:
    """The values; raises Diverged, in the round after ``round``, unless all are finite."""
    if not all_finite(values):
        raise Diverged(round + 1, otherwise)
    return values


def require_some_finite(num_honest: int, non_finite: int, round: int) -> None:
    """Raise Diverged, in the round after ``round``, if there are honest clients but none has a finite update."""
    if 0 < num_honest == non_finite:
        raise Diverged(round + 1, "no honest client's update is finite")


def zero_non_finite(matrix: Tensor) -> int:
    """Replace rows with a non-finite entry by zeros, in place, before any rule sees them; returns the number of such
    rows."""
    # One pass: the sum of a row is finite unless an entry is not, or the sum overflows, which is checked below.
    fine = matrix.sum(dim=1).isfinite()
    if fine.all():
        return 0
    suspects = (~fine).nonzero().squeeze(1)
    rows = suspects[(~matrix[suspects].isfinite()).any(dim=1)]
    matrix[rows] = 0
    return len(rows)
