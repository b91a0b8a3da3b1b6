"""Progress of a sweep, read from its run folders alone, so that any host can report it; and its end."""

import csv
import io
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from tqdm import tqdm

from robustfl_bench.base.console import counted, is_live, say
from robustfl_bench.base.errors import BUSY, GENERAL, ConfigError, NotReady
from robustfl_bench.runner.config import options
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.rates import no_runs_made
from robustfl_bench.runner.store.folders import ENDED, FAILED, INFEASIBLE, MEASURED, runs_folder
from robustfl_bench.runner.store.writing import Damaged, read_text
from robustfl_bench.runner.sweeps.cells import MISSING, OTHERS, End, Incomplete, Sweep, SweepCell, uncollected

RUNNING, WAITING = "running", "waiting"
STATES = (*ENDED, RUNNING, WAITING)

TimedRun = tuple[Mapping[str, Any], float]
"""The config of a run, and the seconds that one of its rounds takes."""

LIKENESS: tuple[tuple[str, ...], ...] = (
    ("dataset", "model", "num_clients", "batch_size", "local_update", "aggregator", "attack"),
    ("dataset", "model", "num_clients", "batch_size", "local_update"),
    ("dataset", "model"),
)
"""Settings that runs with rounds of similar duration share, from the closest likeness on. A run of another model or of
other data says nothing: its rounds may take 1,000 times as long."""


@dataclass(frozen=True)
class Seen:
    """What the folder of a cell shows: its state, the rounds of the run, those done, the seconds that each took, and
    the process that makes it."""

    state: str
    rounds: int
    done: int = 0
    seconds: float | None = None
    owner: str | None = None


def see(cell: SweepCell) -> Seen:
    """Look at the folder of a cell."""
    known = cell.known
    folder, rounds = cell.folder(), 0 if known is None else known.settings.rounds
    if not folder.path.exists():
        return Seen(WAITING, rounds)
    try:
        summary = folder.summary()
    except Damaged:
        summary = None
    done, seconds = _timed(folder.path)
    if summary is not None:
        return Seen(summary["status"], rounds, rounds if summary["status"] in MEASURED else done, seconds)
    owner = folder.lease.owner
    return Seen(RUNNING if owner else WAITING, rounds, done, seconds, owner)


def _timed(folder: Path) -> tuple[int, float | None]:
    """The rounds that a run has done, and the seconds that each took."""
    try:
        lines = io.StringIO(read_text(folder / "timings.csv"), newline="")
        rows = [(int(row["round"]), float(row["seconds"])) for row in csv.DictReader(lines)]
        return rows[-1][0], sum(seconds for _, seconds in rows) / rows[-1][0]
    except (TypeError, ValueError, LookupError, ArithmeticError, csv.Error):  # none yet, damaged, or being written
        return 0, None


def look(sweep: Sweep, before: Mapping[SweepCell, Seen]) -> dict[SweepCell, Seen]:
    """The present state of the folders of all cells, of which those that had ended ``before`` are not read again."""
    ended = {cell: seen for cell, seen in before.items() if seen.state in ENDED and seen.state != FAILED}
    return {cell: ended.get(cell) or see(cell) for cell in sweep.listed}


def seconds_left(seen_of: dict[SweepCell, Seen], others: Iterable[TimedRun] = ()) -> dict[SweepCell, float | None]:
    """The remaining seconds of each unfinished cell, None if unknown: estimated from its own rounds, else from similar
    runs of the sweep or of the ``others``.
    """
    own = ((_config(cell), seen.seconds) for cell, seen in seen_of.items() if seen.seconds is not None)
    known: dict[tuple[Any, ...], list[float]] = {}
    for config, seconds in (*own, *others):
        for key in _likenesses(config):
            known.setdefault(key, []).append(seconds)
    left: dict[SweepCell, float | None] = {}
    for cell, seen in seen_of.items():
        if seen.state not in (*MEASURED, INFEASIBLE):
            done = [seen.seconds] if seen.seconds is not None else []
            like = next((each for each in (done, *map(known.get, _likenesses(_config(cell)))) if each), None)
            left[cell] = None if like is None else (seen.rounds - seen.done) * fmean(like)
    return left


def timed_runs(results_dir: str) -> Iterator[TimedRun]:
    """The config of each run in a folder that has timings, and the seconds that one of its rounds took."""
    runs = runs_folder(results_dir)
    for path in sorted(runs.iterdir()) if runs.is_dir() else []:
        _, seconds = _timed(path)
        if seconds is not None:
            with suppress(Damaged, yaml.YAMLError):
                if isinstance(config := options.parse(read_text(path / "config.yaml")), Mapping):
                    yield config, seconds


def _config(cell: SweepCell) -> Mapping[str, Any]:
    return {} if cell.known is None else cell.known.config


def _likenesses(config: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [(names, *(str(config.get(name)) for name in names)) for names in LIKENESS]


def line(seen_of: dict[SweepCell, Seen]) -> str:
    """The state of a sweep in one line."""
    counts = Counter(seen.state for seen in seen_of.values())
    each = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    left = list(seconds_left(seen_of).values())
    known = [seconds for seconds in left if seconds is not None]
    eta = ""
    if left and known:
        at_once = max(len({seen.owner for seen in seen_of.values() if seen.owner}), 1)  # a process makes several
        eta = f"; {duration(fmean(known) * len(left) / at_once)} left"
    return f"sweep: {counted(len(seen_of), 'run')}: {each}{eta}"


def duration(seconds: float) -> str:
    """Seconds in short form: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def shown(sweep: Sweep, every: float | None = None) -> Iterator[None]:
    """Show progress within the context: one updated line on a terminal and in a notebook, else a line each minute."""
    terminal = is_live()
    pause = every or (1.0 if terminal else 60.0)
    over = threading.Event()
    bar = tqdm(total=0, bar_format="{desc}", leave=False) if terminal else None

    def show() -> None:
        seen_of: dict[SweepCell, Seen] = {}
        while not over.wait(pause):
            began = time.monotonic()
            line_now = line(seen_of := look(sweep, seen_of))
            bar.set_description_str(line_now) if bar is not None else say(line_now)
            over.wait(20 * (time.monotonic() - began))  # under 5% of the time, however many runs there are

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if bar is not None:
            bar.close()


def conclude(ends: Sequence[End]) -> Incomplete | None:
    """Print how a sweep ended, with its failures by reason; returns an Incomplete if results are missing. Its exit code
    is that of the failures if they share one, else 1.
    """
    counts = Counter(end.status for end in ends)
    each = ", ".join(f"{counts[status]} {status}" for status in (*ENDED, OTHERS, MISSING) if counts[status])
    stored = sum(end.was_stored for end in ends)
    line = f"sweep: {counted(len(ends), 'run')}: {each}" + (f"; {stored} were stored" if stored else "")
    say(line)
    for reason, number in Counter(end.reason for end in ends if end.status == FAILED).most_common():
        say(f"  {number} failed: {reason}")
    left = [end for end in ends if end.status in (FAILED, OTHERS, MISSING)]
    if not left:
        return None
    codes = {BUSY if end.status == OTHERS else end.code for end in left}
    return Incomplete(line, codes.pop() if len(codes) == 1 else GENERAL)


STORED, KEPT, BLOCKED, REFUSED, TO_MAKE = "stored", "kept", "waiting for other runs", "refused", "to make"
PREVIEWED = (STORED, KEPT, INFEASIBLE, FAILED, RUNNING, REFUSED, BLOCKED, TO_MAKE)
SHOWN = 3
"""The most reasons that are printed unless the cells are listed."""


def preview(sweep: Sweep, listed: bool = False) -> None:
    """Print how many runs of a sweep are stored, kept and to make, the time that these take, and what stops others.

    ``listed``: then each cell with its state, each result that does not count any more, and remarks on those that do.
    """
    stale: list[str] = []
    remarks: list[str] = []
    reasons = Counter[tuple[str, str]]()
    states: dict[SweepCell, str] = {}
    unfinished: dict[SweepCell, Seen] = {}
    with no_runs_made(), uncollected():
        for cell in sweep.listed:
            try:
                said: list[str] = []
                states[cell] = _state(cell, said.append)
                (remarks if states[cell] in (STORED, KEPT) else stale).extend(said)
            except ConfigError as error:
                states[cell] = BLOCKED if isinstance(error, NotReady) else REFUSED
                reasons[states[cell], str(error)] += 1
            if states[cell] in (RUNNING, TO_MAKE):
                seen = see(cell)
                again = seen.state in MEASURED  # a result that does not count any more
                unfinished[cell] = replace(seen, state=WAITING, done=0) if again else seen
    left = seconds_left(unfinished, timed_runs(sweep.results_dir))
    counts = Counter(states.values())
    each = ", ".join(f"{counts[state]} {state}" for state in PREVIEWED if counts[state])
    print(f"{counted(len(states), 'run')}: {each}" + (f" ({_time(left.values())})" if left else ""))
    for (state, reason), number in reasons.most_common(None if listed else SHOWN):
        print(f"  {number} {state}: {reason}")
    if not listed:
        hidden = f"{len(reasons) - SHOWN} more reasons" if len(reasons) > SHOWN else ""
        unused = f"{len(stale)} results that do not count any more" if stale else ""
        noted = f"remarks on {counted(len(remarks), 'result')}" if remarks else ""
        print(f"  -v lists {' and '.join(filter(None, ('the runs', hidden, unused, noted)))}")
        return
    for line, number in Counter([*stale, *remarks]).items():
        print(f"  {line}" + f" ({number} results)" * (number > 1))
    for cell, state in states.items():
        print(f"{state}: {cell}" + (f" ({_time([left[cell]])})" if cell in left else ""))


def _state(cell: SweepCell, say: Callable[[str], None]) -> str:
    """What the sweep would find of a cell. Raises ConfigError if the cell cannot be composed."""
    if (answer := answers.existing(cell.asked, say)) is not None:
        return STORED if answer.what.startswith(STORED) else KEPT
    ended = answers.status(cell.asked)
    if ended == INFEASIBLE or (ended == FAILED and not cell.sweep.retry_failed):
        return ended
    folder = cell.asked.folder
    return RUNNING if folder.path.exists() and folder.lease.owner else TO_MAKE


def _time(left: Collection[float | None]) -> str:
    """The time of runs in words."""
    known = [seconds for seconds in left if seconds is not None]
    if not known:
        return "time unknown"
    unknown = len(left) - len(known)
    return f"about {duration(sum(known))} in one process" + (f", and {unknown} of unknown time" if unknown else "")
