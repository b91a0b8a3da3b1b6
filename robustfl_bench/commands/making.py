"""The runs that a verb needs: those that are missing are made, and the finished ones are read."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.store.folders import DIVERGED, FINISHED
from robustfl_bench.runner.sweeps import progress
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.ends import Outcome
from robustfl_bench.runner.sweeps.take import take
from robustfl_bench.runner.sweeps.workers import take_with_workers

if TYPE_CHECKING:
    import pandas as pd


def check_overrides(group: str, overrides: Sequence[str]) -> None:
    """Raise ConfigError unless all are of the part that a verb tries: its rivals keep every other setting."""
    for word in overrides:
        if not word.lstrip("+~").startswith((f"{group}.", f"{group}@")):
            raise ConfigError(f"{word} is no option of the {group}, {group}.KEY=VALUE; all else is the protocol's")


def made_all(words: Sequence[str], asked: Namespace, what: str) -> Outcome:
    """The ends of a sweep, after making what is missing. Raises ConfigError if a run cannot be made."""
    return made_cells(compose.sweep(words), asked, what)


def made_cells(
    cells: Sequence[tuple[str, ...]], asked: Namespace, what: str, ended: Sequence[str] = (FINISHED, DIVERGED)
) -> Outcome:
    """The same of runs by their overrides; those in other states than ``ended`` cannot be made."""
    sweep = Sweep(cells=tuple(cells), results_dir=asked.results_dir)
    say(f"{what}: {len(sweep.cells)} runs")
    with progress.shown(sweep), progress.quiet():
        outcome = take(sweep) if asked.jobs == 1 else take_with_workers(sweep, asked.jobs, 1)
    failed = Counter(end.reason for end in outcome.ends if end.status not in ended)
    if failed:
        reason, number = failed.most_common(1)[0]
        raise ConfigError(f"{what}: {number} of {len(sweep.cells)} cannot be made: {reason}")
    return outcome


def runs_of(words: Sequence[str], results_dir: str) -> pd.DataFrame:
    """The finished runs of a sweep, from their folders or as the package keeps them."""
    cells = Sweep(cells=tuple(compose.sweep(words)), results_dir=results_dir).listed
    folders = {cell.folder().path: cell.asked.run_id for cell in cells}
    own = [path for path in folders if (path / "summary.json").exists()]
    kept = archive.kept(arena=True)
    found = records.of_folders(own) if own else records.nothing()
    return archive.join([found, kept[kept["run_id"].isin(set(folders.values()))]])
