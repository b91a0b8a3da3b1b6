"""An inventory of the papers' tables and figures, and how many runs of each exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robustfl_bench.read.pages import figures
from robustfl_bench.read.runs import commands
from robustfl_bench.read.runs.archive import KEPT
from robustfl_bench.read.runs.matching import Index, sweep
from robustfl_bench.read.runs.records import text
from robustfl_bench.read.tables import described as papers
from robustfl_bench.read.tables.described import PaperFigure, PaperTable
from robustfl_bench.read.tables.stand_ins import filled

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class InventoryEntry:
    """A table or a figure: ``done`` of its ``runs`` are finished or known to be infeasible.

    Of a table, ``inside`` of the ``compared`` cells of all ``cells`` agree with the published number; ``stand_ins``
    more are measured with other settings. ``commands`` make the runs, and then the table or the figure. A ``probed``
    figure is not made of runs.
    """

    name: str
    title: str
    runs: int
    done: int
    commands: tuple[str, ...]
    cells: int | None = None
    compared: int = 0
    inside: int = 0
    stand_ins: int = 0
    probed: bool = False


def inventory(
    runs: pd.DataFrame, begins: str = "", known: Mapping[str, PaperTable | PaperFigure] | None = None
) -> Iterator[InventoryEntry]:
    """An entry for every table and figure whose name begins with ``begins``, measured by ``runs`` (``records.load``);
    ``known`` are those to choose from, by default all."""
    index = Index(runs)
    ended = [state in KEPT for state in runs["state"]]
    seeds = list(runs["seed"].map(text))
    everything: dict[str, PaperTable | PaperFigure] = {**papers.tables(), **papers.figures()}
    for name, entry in (everything if known is None else known).items():
        if not name.startswith(begins):
            continue
        runs_of = sweep(entry.preset, *entry.changes)
        done = sum(len({seeds[place] for place in index.at(dict(config)) if ended[place]} & asked)
                   for config, asked in runs_of.items())  # fmt: skip
        total = sum(map(len, runs_of.values()))
        if isinstance(entry, PaperFigure):
            both = (figures.making(entry, ()), f"robustfl-results figure {name} --output {name.replace('/', '_')}.png")
            yield InventoryEntry(name, entry.title, total, done, both, probed=entry.draw in figures.PROBED)
        else:
            yield _table(entry, runs, index, total, done)


def _table(table: PaperTable, runs: pd.DataFrame, index: Index, total: int, done: int) -> InventoryEntry:
    both = (commands.preset(table.preset, table.changes), f"robustfl-results table {table.name}")
    cells = len(table.cells)
    if not done and not table.stand_ins:
        return InventoryEntry(table.name, table.title, total, done, both, cells)
    measured = filled(table, runs, runs, index).table
    judged = measured.judged.values()
    inside = sum(bool(cell.inside) for cell in judged)
    stood_in = len(measured.stood_in)
    return InventoryEntry(table.name, table.title, total, done, both, cells, len(judged), inside, stood_in)
