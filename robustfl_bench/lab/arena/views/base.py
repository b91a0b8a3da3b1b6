"""A view: one question that an arena's runs answer, as a table and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import HONEST, SERVER, ArenaRun
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ArenaView:
    """A question, and what answers it. The first line above the first sheet is its title, the second its answer in a
    sentence. Both functions raise NoRuns if the runs cannot answer."""

    name: str
    question: str
    sheets: Callable[[Arena], list[Sheet]]
    picture: Callable[[Arena, Frame], Figure]


def mean_scores(row: Sequence[ArenaPanel]) -> dict[str, float]:
    """The mean score over partitions of each rule that was run under all attacks in all of them, the best first."""
    rules = [rule for rule in row[0].standings
             if all(rule in panel.standings and panel.is_whole(rule) for panel in row)]  # fmt: skip
    means = {rule: fmean(panel.standings[rule].score.value for panel in row) for rule in rules}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def rows_of_panels(arena: Arena) -> Iterator[tuple[int, list[ArenaPanel]]]:
    """The panels by number of attackers. Raises NoRuns unless a rule was attacked."""
    rows = [(number, arena.row(number)) for number in arena.settled]
    attacked = [(number, row) for number, row in rows if row and any(mean_scores(row))]
    if not attacked:
        raise NoRuns(f"no rule of arena {arena.track.name} was run under all attacks in all partitions")
    yield from attacked


def by_rule(runs: Iterable[ArenaRun]) -> dict[str, list[ArenaRun]]:
    """The runs of each rule; the rows of reference are none."""
    held: dict[str, list[ArenaRun]] = {}
    for run in runs:
        if run.rule not in (HONEST, SERVER):
            held.setdefault(run.rule, []).append(run)
    return held
