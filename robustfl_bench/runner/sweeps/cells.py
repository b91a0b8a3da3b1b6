"""A sweep is a list of cells, each the overrides of one run.

A cell is composed from the files of ``conf/`` as they are now, in a fraction of a millisecond, so no index of cells
can be out of date.
"""

import gc
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from robustfl_bench.base.errors import GENERAL, ConfigError
from robustfl_bench.runner.config import interpolate, request
from robustfl_bench.runner.config.beyond import NOTHING, ForHydra
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.answers import Answer
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.samples import alike, at_once
from robustfl_bench.runner.store.folders import RunFolder


@dataclass(frozen=True)
class Sweep:
    """The cells of a sweep, and all that a process on another host needs to compose them: it can be pickled."""

    cells: tuple[tuple[str, ...], ...]
    config_dir: str | None = None  # of --config-dir
    folder: str = field(default_factory=os.getcwd)
    results_dir: str = "results"
    wait: bool = True  # for runs of other processes; else they are left to these
    retry_failed: bool = True  # whether to repeat failures that exist when the sweep begins
    takers: int = 1  # processes that take cells at once, if that is known
    again: Mapping[tuple[str, ...], int] | None = None
    """The failures, and the results that the seed does not fix, which this sweep makes again: the time of each record,
    by cell. None: those found when it begins."""
    hydra: ForHydra = NOTHING  # for cells that Hydra composes, with the number of the first one
    began: float = field(default_factory=time.time)  # the time ``now`` in all cells
    whole: tuple[tuple[str, ...], ...] | None = None  # of a part of a sweep: the cells of all of it

    @cached_property
    def listed(self) -> "list[SweepCell]":
        """The cells as objects that cache what is known about them."""
        return [SweepCell(self, overrides) for overrides in self.cells]

    def only(self, cells: Sequence[tuple[str, ...]], again: Mapping[tuple[str, ...], int]) -> "Sweep":
        """The sweep of some of the cells."""
        return replace(self, cells=tuple(cells), again=dict(again), whole=self.whole or self.cells)

    @cached_property
    def numbers(self) -> Mapping[tuple[str, ...], int]:
        """The number of each cell in the whole sweep, for ``${hydra:job.num}``."""
        return {cell: number for number, cell in enumerate(self.whole or self.cells, self.hydra.number or 0)}

    def enter(self) -> None:
        """Prepare a new process to compose the cells, whose folders may be relative ones."""
        os.chdir(self.folder)
        if self.folder not in sys.path:
            sys.path.append(self.folder)


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is searched for cycles within the context: of what thousands of cells hold, all is kept."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class SweepCell:
    """One run of a sweep."""

    is_call = False
    """Whether it is a call of somebody else's function in the place of a run."""

    def __init__(self, sweep: Sweep, overrides: tuple[str, ...]) -> None:
        self.sweep, self.overrides = sweep, overrides

    def __str__(self) -> str:
        return shlex.join(self.overrides)

    @property
    def command(self) -> str:
        """The command that makes the run alone."""
        return f"robustfl-bench {self}"

    @cached_property
    def asked(self) -> Request:
        """The requested run, to compare with stored results. Raises ConfigError."""
        hydra = replace(self.sweep.hydra, number=self.sweep.numbers[self.overrides])
        with interpolate.at(self.sweep.began):
            return Request(*request.of_cell(self.overrides, self.sweep.config_dir, hydra))

    @property
    def known(self) -> Request | None:
        """The same, None for a cell that cannot be composed."""
        return None if self.refusal else self.asked

    @cached_property
    def refusal(self) -> ConfigError | None:
        """Why the cell cannot be composed, which every process finds by itself; None if it can."""
        try:
            self.compose()
        except ConfigError as error:
            return error
        return None

    def compose(self) -> None:
        """Compose the cell, if that is not done yet. Raises ConfigError."""
        _ = self.asked

    def stored(self, say: Callable[[str], None], unseeded: bool = False) -> Answer | None:
        """The result in the run folder, if it counts; see ``answers``."""
        return answers.stored(self.asked, say, unseeded=unseeded)

    def kept(self, say: Callable[[str], None]) -> Answer | None:
        """The result that comes with the package, if it counts."""
        return None if self.known is None else answers.from_kept(self.known, say)

    def call(self) -> Answer:
        """Call the function, and record how it ended. Raises its error."""
        raise NotImplementedError(f"{self} is a run")

    def folder(self) -> RunFolder:
        """Its run folder. Raises ConfigError."""
        return self.asked.folder


OTHERS, MISSING = "others", "missing"
"""Ends of a cell besides those of a run folder: another process runs it, or none does."""


@dataclass(frozen=True)
class End:
    """How a cell ended: a status of a run folder, OTHERS or MISSING; the number that sweeps tune by; why it failed.

    ``code`` is the exit code that its failure has as a single run.
    """

    status: str
    value: float = float("nan")
    reason: str = ""
    was_stored: bool = False
    code: int = GENERAL


class Incomplete(RuntimeError):
    """A sweep that ended without all its results; what is missing has been printed."""

    def __init__(self, message: str, exit_code: int = GENERAL) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def stacks(cells: Sequence[SweepCell], takers: int) -> Iterator[list[SweepCell]]:
    """The cells in stacks, in the order of their first cells; most are alone if their runs are.

    Alone is also a cell in whose run a process has died, so that it ends no others, and one that is the same run as an
    earlier one. ``takers`` processes share the cells.
    """
    groups: dict[str, list[SweepCell]] = {}
    for number, cell in enumerate(cells):
        known = cell.known
        joins = known is not None and known.settings.stack and not cell.folder().deaths
        groups.setdefault(alike(known) if joins and known is not None else str(number), []).append(cell)
    share = -(-len(cells) // takers)
    for group in groups.values():
        if len(group) == 1:  # perhaps no run of this package, which has no id
            yield group
            continue
        first_of = {cell.asked.run_id: cell for cell in reversed(group)}
        distinct = [cell for cell in group if first_of[cell.asked.run_id] is cell]
        most = min(share, _at_once(distinct)) if len(distinct) > 1 else 1
        yield from (distinct[i : i + most] for i in range(0, len(distinct), most))
        yield from ([cell] for cell in group if first_of[cell.asked.run_id] is not cell)


def _at_once(cells: Sequence[SweepCell]) -> int:
    """How many of these cells, which are alike, are trained together."""
    for cell in cells:
        try:
            return at_once(cell.asked.planned())
        except Exception:  # of this cell alone, whose run records it
            continue
    return 1
