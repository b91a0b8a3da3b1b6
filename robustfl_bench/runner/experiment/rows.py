"""The rows that a run writes after every evaluated round, its progress bar, and the calls that its trackers get."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.console import is_live
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.trackers.base import Tracked, Tracker, Tracking
from robustfl_bench.runner.experiment.own_metrics import apart
from robustfl_bench.runner.experiment.summary import shown
from robustfl_bench.runner.store.folders import OWN_METRICS, RunFolder, plain

if TYPE_CHECKING:
    from robustfl_bench.parts.protocols.state import State
    from robustfl_bench.runner.experiment.plan import Request
    from robustfl_bench.train.evaluation import Record
    from robustfl_bench.train.federation import Federation


def check_trackers(trackers: Sequence[Tracker]) -> None:
    """Raise one ConfigError that names every tracker that cannot be used, before any data are loaded."""
    errors = []
    for tracker in trackers:
        try:
            tracker.check()
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError("; ".join(errors))


class Trackers:
    """Passes the records of one run to its trackers. A tracker that raises gets no further calls, with a note."""

    def __init__(self, request: "Request", folder: RunFolder, note: Callable[[str], None]) -> None:
        self._planned, self._folder, self._note = request, folder, note
        self._following: dict[Tracker, Tracking] = {}

    def begin(self, done: int) -> None:
        """The run begins, or resumes after ``done`` rounds."""
        folder = self._folder
        run = Tracked(folder.run_id, folder.path.name, self._planned.config, folder.path.absolute(), done)
        for tracker in self._planned.parts.tracker:
            with self._guarded(tracker):
                self._following[tracker] = tracker.begin(run)

    def record(self, record: Mapping[str, float]) -> None:
        """A round was evaluated."""
        numbers = {name: float(value) for name, value in record.items() if name != "round"}
        for tracker, tracking in list(self._following.items()):
            with self._guarded(tracker):
                tracking.record(int(record["round"]), dict(numbers))

    def end(self, summary: Mapping[str, Any] | None) -> None:
        """The run has ended with ``summary``; None: it was cut off and can be resumed."""
        told = None if summary is None else plain(summary)
        for tracker, tracking in list(self._following.items()):
            with self._guarded(tracker):
                tracking.end(told)
        self._following.clear()

    @contextmanager
    def _guarded(self, tracker: Tracker) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._following.pop(tracker, None)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self._note(f"{type(tracker).__name__} is not told about the rest of this run, which goes on: {reason}")


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

    A row goes to metrics.csv and timings.csv, to weights.csv where the rule gives weights, and to own_metrics.csv with
    metrics of the user; then to the ``trackers``. ``silent``: no bar. ``clock`` measures the time of a round.
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
                row, own = apart(record, federation.settings.metrics)
                rows = {"metrics.csv": row}
                if own:
                    rows[OWN_METRICS] = {"round": state.round} | own
                if state.weights is not None:
                    shares = dict(zip(federation.clients.names, state.weights.tolist(), strict=True))
                    rows["weights.csv"] = {"round": state.round} | shares
                rows["timings.csv"] = {"round": state.round, "seconds": clock.now() - began}
                folder.record(rows)
                if trackers is not None:
                    trackers.record(record)
                began = clock.now()
                progress.set_postfix_str(shown(record))
            progress.update()
            yield state
