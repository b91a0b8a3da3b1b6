"""The rows that a run writes after every evaluated round, and its progress bar."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from torch import Tensor

from robustfl_bench.base.console import is_live, say
from robustfl_bench.parts.protocols.state import Memory, State
from robustfl_bench.runner.experiment.summary import shown
from robustfl_bench.runner.experiment.tracking import Trackers
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.runner.store.sealed import Stamp
from robustfl_bench.runner.store.writing import Damaged
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import initial_state

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Record


class Clock:
    """The seconds that a run has taken itself, without those in which it waited for other runs."""

    def __init__(self) -> None:
        self._waited, self._stopped = 0.0, 0.0

    def now(self) -> float:
        """Seconds, from any start."""
        return time.monotonic() - self._waited

    def stop(self) -> None:
        """The run begins to wait."""
        self._stopped = time.monotonic()

    def go_on(self, seconds: float | None) -> None:
        """The run goes on; meanwhile ``seconds`` were spent on it, all of them if None."""
        if seconds is not None:
            self._waited += time.monotonic() - self._stopped - seconds


def written(
    rounds: "Iterable[tuple[State, Record | None]]",
    folder: RunFolder,
    federation: "Federation",
    done: int,
    trackers: Trackers | None = None,
    silent: bool = False,
    clock: Clock | None = None,
) -> "Iterator[State]":
    """Yield the state of each round after the first ``done``, once the record of that round is in ``folder``.

    A row goes to metrics.csv and timings.csv, and to weights.csv where the rule gives weights; then to the
    ``trackers``. ``silent``: no bar. ``clock`` measures the time of a round.
    """
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())  # its usual lock is shared by processes, and lost when one of them is killed
    if trackers is not None:
        trackers.begin(done)
    clock = clock or Clock()
    began, total = clock.now(), federation.settings.rounds
    with tqdm(
        total=total, initial=done, unit="round", desc=folder.path.name, disable=silent or not is_live()
    ) as progress:
        for state, record in rounds:
            if record is not None:
                folder.append("metrics.csv", record)
                if state.weights is not None:
                    shares = dict(zip(federation.names, state.weights.tolist(), strict=True))
                    folder.append("weights.csv", {"round": state.round} | shares)
                folder.append("timings.csv", {"round": state.round, "seconds": clock.now() - began})
                if trackers is not None:
                    trackers.record(record)
                began = clock.now()
                progress.set_postfix_str(shown(record))
            progress.update()
            yield state


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
