"""The rows that a run writes after every evaluated round, and its progress bar."""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from robustfl_bench.base.console import is_live
from robustfl_bench.runner.experiment.summary import shown
from robustfl_bench.runner.experiment.tracking import Trackers
from robustfl_bench.runner.store.folders import RunFolder

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.parts.protocols.state import State
    from robustfl_bench.train.evaluation import Record
    from robustfl_bench.train.federation import Federation


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
