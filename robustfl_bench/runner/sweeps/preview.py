"""What a sweep would do, without doing it: ``dry_run=true``."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from robustfl_bench.base.console import counted
from robustfl_bench.base.errors import ConfigError, NotReady
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.rates import no_runs_made
from robustfl_bench.runner.store.folders import FAILED, INFEASIBLE, MEASURED
from robustfl_bench.runner.sweeps.cells import Sweep, SweepCell
from robustfl_bench.runner.sweeps.progress import RUNNING, WAITING, Seen, duration, seconds_left, see, timed_runs

STORED, KEPT, BLOCKED, REFUSED, TO_MAKE = "stored", "kept", "waiting for other runs", "refused", "to make"
STATES = (STORED, KEPT, INFEASIBLE, FAILED, RUNNING, REFUSED, BLOCKED, TO_MAKE)
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
    with no_runs_made():
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
    each = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
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
    return RUNNING if cell.asked.folder.lease.owner else TO_MAKE


def _time(left: Collection[float | None]) -> str:
    """The time of runs in words."""
    known = [seconds for seconds in left if seconds is not None]
    if not known:
        return "time unknown"
    unknown = len(left) - len(known)
    return f"about {duration(sum(known))} in one process" + (f", and {unknown} of unknown time" if unknown else "")
