"""The runs that a verb needs: those that are missing are made, and the finished ones are read. With
``robustfl-bench remake FILE.csv``, which makes kept runs of older code again with today's."""

from __future__ import annotations

import shlex
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.console import counted, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.commands.shared import check_results_dir
from robustfl_bench.commands.verb import Allow, Argument, command
from robustfl_bench.read.runs import archive, commands, origins, records
from robustfl_bench.read.runs.where import where as chosen
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.store.folders import DIVERGED, FINISHED, INFEASIBLE, MEASURED
from robustfl_bench.runner.sweeps.cells import End, Sweep
from robustfl_bench.runner.sweeps.workers import take_quietly


def _jobs(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number == 0 or number < -1:
        raise ArgumentTypeError(f"must be >= 1, or -1: one for each core; got {text}")
    return number


@dataclass(frozen=True, kw_only=True)
class Making:
    """Where runs are made, and in how many processes."""

    results_dir: Annotated[str, Argument("of the runs (%(default)s)", "FOLDER")] = "results"
    jobs: Annotated[int, Argument("processes; -1: one for each core (%(default)s)", "N", read=_jobs)] = 1

    def __post_init__(self) -> None:
        check_results_dir(self.results_dir)


def check_overrides(group: str, overrides: Sequence[str]) -> None:
    """Raise ConfigError unless all are of the part that a verb tries: its rivals keep every other setting."""
    for word in overrides:
        if not word.lstrip("+~").startswith((f"{group}.", f"{group}@")):
            raise ConfigError(f"{word} is no option of the {group}, {group}.KEY=VALUE; all else is the protocol's")


def made_all(words: Sequence[str], making: Making, what: str) -> list[End]:
    """The ends of a sweep, after making what is missing. Raises ConfigError if a run cannot be made."""
    return made_cells(compose.sweep(words), making, what)


def made_cells(
    cells: Sequence[tuple[str, ...]], making: Making, what: str, ended: Sequence[str] = (FINISHED, DIVERGED)
) -> list[End]:
    """The same of runs by their overrides; those in other states than ``ended`` cannot be made."""
    sweep = Sweep(cells=tuple(cells), results_dir=making.results_dir)
    say(f"{what}: {counted(len(sweep.cells), 'run')}")
    ends = take_quietly(sweep, making.jobs)
    failed = Counter(end.reason for end in ends if end.status not in ended)
    if failed:
        reason, number = failed.most_common(1)[0]
        raise ConfigError(f"{what}: {number} of {len(sweep.cells)} cannot be made: {reason}")
    return ends


def keep(cells: Sequence[tuple[str, ...]], making: Making, file: str) -> int:
    """Write a row of each run of today's code that has ended in its folder into a file of kept rows, in place of an
    earlier one; their number."""
    sweep = Sweep(tuple(cells), results_dir=making.results_dir)
    folders = [cell.folder().path for cell in sweep.listed if cell.known is not None]
    done = [folder for folder in folders if (folder / "summary.json").exists()]
    if not done:
        return 0
    new = records.of_folders(done)
    new = new[new["state"].isin(archive.KEPT) & ~origins.outdated(new)]
    if len(new):
        archive.put(new, file)
    return len(new)


def runs_of(words: Sequence[str], results_dir: str) -> pd.DataFrame:
    """The finished runs of a sweep, from their folders or as the package keeps them."""
    cells = Sweep(cells=tuple(compose.sweep(words)), results_dir=results_dir).listed
    folders = {cell.folder().path: cell.asked.run_id for cell in cells}
    own = [path for path in folders if (path / "summary.json").exists()]
    kept = archive.kept(arena=True)
    found = records.of_folders(own) if own else records.nothing()
    return archive.join([found, kept[kept["run_id"].isin(set(folders.values()))]])


def remake(
    file: Annotated[str, Argument("such as results/boba/quick.csv; may end in .gz", "FILE.csv")],
    *,
    where: Annotated[
        Sequence[str], Argument("only these runs, repeatable: dataset=mnist, attack=none,ipm", "KEY=VALUE")
    ] = (),
    allow: Allow = (),
    dry_run: Annotated[bool, Argument("print their commands; make nothing")] = False,
    making: Making,
) -> int:
    """Make the runs of a file of robustfl-results export --summary again that other code than today's made. The new
    lines take the place of the old ones, in a part beside a file that is kept in results/. Ctrl-C keeps what is
    finished; the same command goes on.
    """
    kept = archive.read(file)
    asked_for = chosen(kept, where)
    old = asked_for[origins.outdated(asked_for)].to_dict("records")
    asked_words, lost = list[Sequence[str]](), list[str]()
    for run in old:
        try:
            asked_words.append(commands.words_of(run))
        except ConfigError as error:
            lost.append(f"{run['run']}: {error}")
    if lost:
        say(f"{len(lost)} of {len(old)} cannot be asked for with today's options, such as {lost[0]}")
    seconds = sum(float(run["seconds"]) for run in old)
    say(f"{file}: {len(old)} of {len(asked_for)} runs by other code than today's; they took {seconds:.0f} s")
    if dry_run:
        for own in asked_words:
            print(shlex.join(["robustfl-bench", *own]))
    elif asked_words:
        cells = tuple((*own, f"results_dir={making.results_dir}") for own in asked_words)
        try:
            made_cells(cells, making, file, (*MEASURED, INFEASIBLE))
        finally:
            if number := keep(cells, making, file):
                say(f"{file}: {counted(number, 'run')} of today's code now")
    return 1 if lost else 0


main = command(remake, "robustfl-bench remake")
