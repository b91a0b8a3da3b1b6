"""A sweep is a list of cells, each the overrides of one run.

A cell is composed from the files of ``conf/`` as they are now, in a fraction of a millisecond, so no index of cells
can be out of date.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import request
from robustfl_bench.runner.config.request import Call
from robustfl_bench.runner.experiment.plan import Outline, outline
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

    @cached_property
    def listed(self) -> "list[SweepCell]":
        """The cells as objects that cache what is known about them."""
        return [SweepCell(self, overrides) for overrides in self.cells]

    def only(self, cells: Sequence[tuple[str, ...]], again: Mapping[tuple[str, ...], int]) -> "Sweep":
        """The sweep of some of the cells."""
        return replace(self, cells=tuple(cells), again=dict(again))

    def enter(self) -> None:
        """Prepare a new process to compose the cells, whose folders may be relative ones."""
        os.chdir(self.folder)
        if self.folder not in sys.path:
            sys.path.append(self.folder)


class SweepCell:
    """One run of a sweep."""

    def __init__(self, sweep: Sweep, overrides: tuple[str, ...]) -> None:
        self.sweep, self.overrides = sweep, overrides
        self._folder: RunFolder | None = None

    def __str__(self) -> str:
        return shlex.join(self.overrides)

    @cached_property
    def composed(self) -> tuple[Mapping[str, Any], Call]:
        """The config of the run and its call. Raises ConfigError."""
        return request.of_cell(self.overrides, self.sweep.config_dir)

    @cached_property
    def asked(self) -> Outline:
        """The requested run, to compare with stored results. Raises ConfigError."""
        return outline(self.composed[0])

    @property
    def known(self) -> Outline | None:
        """The same, None for a cell that cannot be composed."""
        return None if self.refusal else self.asked

    @cached_property
    def refusal(self) -> ConfigError | None:
        """Why the cell cannot be composed, which every process finds by itself; None if it can."""
        try:
            _ = self.asked
        except ConfigError as error:
            return error
        return None

    def folder(self) -> RunFolder:
        """Its run folder. Raises ConfigError."""
        if self._folder is None or not self._folder.path.exists():
            self._folder = RunFolder(self.asked.settings.results_dir, "run", self.asked.run_id)
        return self._folder
