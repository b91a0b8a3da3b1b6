"""The rows that a run writes after every evaluated round, and its progress bar."""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from robustfl_bench.experiment.summary import shown
from robustfl_bench.experiment.tracking import Trackers
from robustfl_bench.store.folders import RunFolder

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.engine.evaluation import Record
    from robustfl_bench.engine.federation import Federation
    from robustfl_bench.protocols.state import State


def written(
    rounds: "Iterable[tuple[State, Record | None]]",
    folder: RunFolder,
    federation: "Federation",
    done: int,
    trackers: Trackers | None = None,
    silent: bool = False,
) -> "Iterator[State]":
    """Yield the state of each round after the first ``done``, once the record of that round is in ``folder``.

    A row goes to metrics.csv and timings.csv, and to weights.csv where the rule gives weights; then to the
    ``trackers``. ``silent``: no bar.
    """
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())  # its usual lock is shared by processes, and lost when one of them is killed
    if trackers is not None:
        trackers.begin(done)
    began, total = time.monotonic(), federation.settings.rounds
    with tqdm(total=total, initial=done, unit="round", desc=folder.path.name, disable=silent or None) as progress:
        for state, record in rounds:
            if record is not None:
                folder.append("metrics.csv", record)
                if state.weights is not None:
                    shares = dict(zip(federation.names, state.weights.tolist(), strict=True))
                    folder.append("weights.csv", {"round": state.round} | shares)
                folder.append("timings.csv", {"round": state.round, "seconds": time.monotonic() - began})
                if trackers is not None:
                    trackers.record(record)
                began = time.monotonic()
                progress.set_postfix_str(shown(record))
            progress.update()
            yield state
