"""The loop of one process over the cells of a sweep; any number of such processes share them."""

import gc
import math
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import cache

from robustfl_bench.base.children import terminable
from robustfl_bench.base.console import note_once, say
from robustfl_bench.base.errors import GENERAL, ConfigError, DataError, NotReady, exit_code, explain
from robustfl_bench.parts import datasets
from robustfl_bench.runner.experiment import answers, samples
from robustfl_bench.runner.experiment.execute import RunFailed, completing, record
from robustfl_bench.runner.experiment.machine import release_gpu, threads
from robustfl_bench.runner.experiment.plan import InfeasibleError, Request
from robustfl_bench.runner.experiment.samples import Steps, alone, together
from robustfl_bench.runner.experiment.summary import without_score
from robustfl_bench.runner.processes import members
from robustfl_bench.runner.store.folders import FAILED, INFEASIBLE, MEASURED, RunFolder, RunLocked
from robustfl_bench.runner.store.lease import LeaseLost
from robustfl_bench.runner.store.writing import CannotWrite, Damaged
from robustfl_bench.runner.sweeps.cells import MISSING, OTHERS, End, Sweep, SweepCell, stacks, uncollected

POLL = 1.0
"""Seconds between two looks at the cells that other processes run."""

EVERY = 1.0
"""Seconds between two collections of unused memory, each of which takes a few hundredths of a second."""

STORED = "stored result"
"""The label of a result that existed before the sweep began."""

LIVES = 5
"""A cell has failed when this many processes in a row have died in it without a new checkpoint."""

_KILLED = "{} processes in a row were killed in this run at the same point: out of memory?"


def take(sweep: Sweep, begins: bool = False) -> list[End]:
    """Complete all cells of a sweep, together with any other processes that take the same cells.

    Stored results are returned and free cells are run. Cells that other processes run are awaited, and taken over if
    these processes die; with ``sweep.wait`` false they are left to them. With ``begins``, no other process has checked
    that the data are there. Raises DataError if they are not, CannotWrite, and SystemExit at SIGTERM, after a
    checkpoint.
    """
    taker = Taker(sweep)
    with terminable(), samples.among(sweep.takers):
        taker.survey()
        if begins:
            require_data(taker.remaining())
        while missing := taker.missing:
            settled = [taker.settle(cells) for cells in stacks(missing, sweep.takers)]
            if not any(settled) or not sweep.wait:
                for cell in taker.missing:  # of stacks that other processes are making
                    taker.settle([cell])
            if not sweep.wait:
                break
            if taker.missing:
                time.sleep(POLL)
    return taker.all_ends()


def require_data(sweep: Sweep) -> None:
    """Raise one DataError if files of the data sets of these cells are missing on this machine, before any is made."""
    needed = {(str(known.config["dataset"]), known.settings.data_dir): known for cell in sweep.listed
              if (known := cell.known) is not None}  # fmt: skip
    problems = []
    for (_, data_dir), known in needed.items():
        try:
            with suppress(ConfigError):  # of an invalid data set, recorded with the cells that use it
                datasets.require(known.dataset, data_dir)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("; ".join(dict.fromkeys(problems)))


def take_with(sweep: Sweep, place: Callable[["Taker", Sweep], object]) -> list[End]:
    """Answer what is stored, and let ``place`` complete the other cells, a sweep of their own, by processes that it
    starts and waits for."""
    taker = Taker(sweep)
    taker.survey()
    left = taker.remaining()
    if left.cells:
        place(taker, left)
    return taker.ends_by_others()


class Taker:
    """The state of a sweep's cells as one process knows it."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.cells = sweep.listed
        self.ends: dict[SweepCell, End] = {}
        self._released = -math.inf
        self._again = {} if sweep.again is None else dict(sweep.again)
        self._note_once = note_once()
        self._reasons = set[str]()  # of the failures that have been printed

    @property
    def missing(self) -> list[SweepCell]:
        """The cells without an end, in order."""
        return [cell for cell in self.cells if cell not in self.ends]

    def all_ends(self) -> list[End]:
        """How all cells ended; those without an end are left to other processes, if the sweep does not wait for
        these."""
        none = End(MISSING if self.sweep.wait else OTHERS)
        return [self.ends.get(cell, none) for cell in self.cells]

    def ends_by_others(self) -> list[End]:
        """How all cells ended, after other processes took the remaining ones."""
        self._again = {}
        for cell in self.missing:
            self.look(cell)
        return self.all_ends()

    def remaining(self) -> Sweep:
        """The sweep of the cells without an end, for other processes."""
        return self.sweep.only([cell.overrides for cell in self.missing], self._again)

    def survey(self) -> None:
        """Find the stored ends, and those that are to be repeated."""
        with uncollected():
            if self.sweep.again is None:
                ends = {cell.overrides: cell.folder() for cell in self.cells if cell.refusal is None}
                self._again = {
                    overrides: when
                    for overrides, folder in ends.items()
                    if (when := _to_repeat(folder, self.sweep.retry_failed)) is not None
                }
            for cell in self.missing:
                self.look(cell, STORED if self.sweep.again is None else None)

    def look(self, cell: SweepCell, what: str | None = None) -> bool:
        """Whether a cell has an end, by what its run folder holds or because it cannot be composed; a result is printed
        as ``what`` it is. Raises NotReady."""
        if cell in self.ends:
            return True
        if (refusal := cell.refusal) is not None:
            if isinstance(refusal, NotReady):
                raise refusal
            self.ends[cell] = self._said(cell, End(FAILED, reason=explain(refusal), code=exit_code(refusal)))
            return True
        folder = cell.folder()
        try:
            summary = folder.summary()
        except Damaged:
            return False
        if summary is None:
            return self._is_kept(cell)
        end, is_earlier = None, self._again.get(cell.overrides) == folder.ended_at
        if summary["status"] in MEASURED:
            if (answer := cell.stored(self._note_once, unseeded=not is_earlier)) is not None:
                value = answer.tell(what) if what else answer.value
                if what == STORED and cell.known is not None:
                    answers.unfollowed(cell.known.composed, self._note_once)
                end = End(answer.status, value, was_stored=what == STORED)
                folder.tidy()
        elif summary["status"] == FAILED:
            if not is_earlier:
                end = End(FAILED, reason=str(summary.get("error")), code=int(summary.get("exit_code", GENERAL)))
        elif summary.get("code") == cell.asked.code:  # what it says was found with the code of today
            end = End(INFEASIBLE, _worst(cell), str(summary.get("error")))
        if end is not None:
            self.ends[cell] = end
        return end is not None

    def _is_kept(self, cell: SweepCell) -> bool:
        """Whether the result of a cell comes with the package; it is printed."""
        if (answer := cell.kept(self._note_once)) is None:
            return False
        answers.unfollowed(cell.asked.composed, self._note_once)
        self.ends[cell] = End(answer.status, answer.tell(), was_stored=True)
        return True

    def settle(self, cells: Sequence[SweepCell]) -> bool:
        """Complete cells, whose runs are trained together; False if other processes hold any of them.

        Of several cells nothing is done if another process holds the first, as it is about to take them all.
        """
        if len(cells) > 1 and cells[0].folder().lease.is_others():
            return False
        if len(cells) == 1:
            return alone(self._settling(*cells))
        with threads(1):  # the runs begin and end in any order, so all that they change is set for them together
            return all(together([self._settling(cell) for cell in cells]))

    def _settling(self, cell: SweepCell) -> Steps[bool]:
        """The steps that complete a cell."""
        folder = cell.folder()
        if self.look(cell):
            return True
        exists = folder.path.exists()
        if exists and not folder.lease.take():
            return False
        try:
            if exists and self.look(cell):  # it ended a moment ago
                return True
            deaths = folder.count_death() if exists and folder.lease.was_taken_over else 0
            self.ends[cell] = yield from self._running(cell, deaths)
            self._release()
        except (RunLocked, LeaseLost) as error:
            if isinstance(error, LeaseLost):
                say(f"stopped: {error}")
            return False
        finally:
            folder.lease.release()
        return True

    def _release(self) -> None:
        """Free the memory of past runs from time to time. Their objects form cycles, which Python collects so rarely
        that a sweep over large data would hold tens of runs. Imported modules are examined only once."""
        if time.monotonic() - self._released > EVERY:
            gc.collect()
            release_gpu()
            _freeze_imported()
            self._released = time.monotonic()

    def _running(self, cell: SweepCell, deaths: int) -> Steps[End]:
        """The steps of the run of a cell. Raises RunLocked, LeaseLost, CannotWrite or NotReady."""
        try:
            request = None if cell.is_call else cell.asked.planned()
        except InfeasibleError as error:
            if self.look(cell):  # another process has just found that out
                return self.ends[cell]
            with suppress(Damaged):  # a link in its folder: nothing is recorded there
                record({"status": INFEASIBLE, "error": str(error)}, error.request)
            say(f"infeasible: {error}  [{cell}]")
            return End(INFEASIBLE, _worst(cell), str(error))
        except NotReady:
            raise
        except Exception as error:
            return self._failed(cell, error)
        if deaths >= LIVES:
            return self._failed(cell, RunFailed(_KILLED.format(deaths)), request)
        try:
            if request is None:
                answer = cell.call()
            else:
                with members(request) as train:
                    answer = yield from completing(request, train, self._note_once, silent=True)
        except (RunLocked, LeaseLost, CannotWrite):
            raise
        except Exception as error:
            if isinstance(error, RunFailed) and request is not None:  # recorded, with its traceback
                return self._said(cell, End(FAILED, reason=error.reason), str(error))
            return self._failed(cell, error, request)
        if answer.what == STORED:  # a moment ago, by another process, which has printed it
            return End(answer.status, answer.value)
        return End(answer.status, answer.tell())

    def _failed(self, cell: SweepCell, error: Exception, request: Request | None = None) -> End:
        """Record in its run folder why a cell has no result, unless the folder holds links."""
        reason, code, trace = explain(error), exit_code(error), "".join(traceback.format_exception(error))
        outcome = {"status": FAILED, "error": reason, "exit_code": code}
        with suppress(Damaged):
            if request is not None:
                record(outcome, request, trace)
            else:
                folder = cell.folder()
                folder.open()
                with closing(folder):
                    if not cell.is_call:
                        folder.begin(cell.asked.config)
                    folder.finish(outcome | {"command": cell.command}, trace)
        return self._said(cell, End(FAILED, reason=reason, code=code))

    def _said(self, cell: SweepCell, end: End, words: str = "") -> End:
        """A failure, printed unless a cell before has failed for the same reason: the sweep's end has their number."""
        if end.reason not in self._reasons:
            self._reasons.add(end.reason)
            say(f"failed: {words or end.reason}  [{cell}]")
        return end


@cache
def _freeze_imported() -> None:
    """Leave out of all further collections what is held now. Counting what was left out takes as long as collecting."""
    gc.freeze()


def _to_repeat(folder: RunFolder, retry_failed: bool) -> int | None:
    """When a run ended that a sweep makes again: one that failed, or whose result the seed does not fix; else None."""
    try:
        summary = folder.summary()
    except (Damaged, OSError):
        return None
    if summary is None or not (answers.unseeded_in(summary) or (retry_failed and summary["status"] == FAILED)):
        return None
    return folder.ended_at


def _worst(cell: SweepCell) -> float:
    """The number that sweeps tune by for a run that cannot be made: that of a diverged one, as sweepers accept no
    nan."""
    try:
        return without_score(cell.asked.dataset.source)
    except Exception:
        return -math.inf
