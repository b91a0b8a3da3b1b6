"""The trackers of one run: the calls they get, and the handling of those that fail."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.trackers.base import Tracked, Tracker, Tracking
from robustfl_bench.runner.store.folders import RunFolder, plain

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.runner.experiment.plan import Request


def check(trackers: Sequence[Tracker]) -> None:
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
