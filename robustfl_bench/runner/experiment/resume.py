"""The start of a run: its checkpoint, or round 0."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from robustfl_bench.base.console import say
from robustfl_bench.parts.protocols.state import Memory, State
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.runner.store.sealed import Stamp
from robustfl_bench.runner.store.writing import Damaged
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import initial_state


def begin(federation: Federation, folder: RunFolder, stamp: Stamp) -> State:
    """The state of the checkpoint in ``folder``, else the initial one. A line reports a checkpoint that cannot be used.

    The rows in the folder are cut back to that state.
    """
    start = initial_state(federation)
    try:
        saved = folder.checkpoint(stamp)
        return start if saved is None else restored(saved.get("state"), start, federation)
    except Damaged as error:
        folder.forget_rows()
        say(f"starts again: {error}  {folder.path}")
        return start


def restored(stored: Any, start: State, federation: Federation) -> State:
    """The stored state on the device of ``start``; raises Damaged unless it can follow ``start`` in this federation."""
    if not _fits(stored, start, federation):
        raise Damaged("checkpoint.pt does not hold a state of this run")
    return State.restored(stored, start.params.device)


def _fits(stored: Any, start: State, federation: Federation) -> bool:
    if not isinstance(stored, Mapping) or set(stored) != {field.name for field in fields(State)}:
        return False
    round, memory, params = stored["round"], stored["memory"], start.params
    clients = params.new_empty(federation.settings.total_clients)
    return (
        isinstance(round, int)
        and 0 <= round <= federation.settings.rounds
        and _alike(stored["params"], params)
        and (stored["previous"] is None or _alike(stored["previous"], params, any_type=True))
        and (stored["weights"] is None or _alike(stored["weights"], clients, any_type=True))
        and (stored["choice"] is None) == (start.choice is None)
        and (start.choice is None or _alike(stored["choice"], start.choice))
        and isinstance(stored["protocol"], dict)
        and isinstance(memory, list)
        and len(memory) == len(start.memory)
        and all(isinstance(each, dict) and set(each) == {field.name for field in fields(Memory)} for each in memory)
        and all(isinstance(part, dict) for each in memory for part in each.values())
    )


def _alike(value: Any, other: Tensor, any_type: bool = False) -> bool:
    """Whether ``value`` is a tensor of the same shape and type."""
    return isinstance(value, Tensor) and value.shape == other.shape and (any_type or value.dtype == other.dtype)
