"""One HTML page on many runs: tables with intervals, shaded as heat maps, curves, and the runs behind every number."""

from __future__ import annotations

import base64
import math
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from robustfl_bench import __version__
from robustfl_bench.base.console import counted
from robustfl_bench.read.pages.panels import BOTTOM, HEIGHT, LEFT, WIDTH, CurvePanel, Line, panels
from robustfl_bench.read.runs import commands
from robustfl_bench.read.runs.records import STATES, NoRuns, settings, text, written
from robustfl_bench.read.runs.statistics import LEVEL, interval
from robustfl_bench.read.runs.values import Value
from robustfl_bench.read.runs.where import UNREADABLE, check_name, keys, listed, parts, where
from robustfl_bench.read.tables import agreement, html, layout
from robustfl_bench.read.tables.layout import Look
from robustfl_bench.read.tables.pivot import pivot
from robustfl_bench.read.tables.sheets import Sheet, below, bodies, grouped, with_names
from robustfl_bench.read.tables.table import Cell, Column, Table
from robustfl_bench.runner.config.names import in_words, of_value, readable

if TYPE_CHECKING:
    import pandas as pd

_MADE_OF = {
    "error": "error", "seconds": "seconds", "code": "code digest", "commit": "commit", "data": "data",
    "versions": "versions", "device": "device", "processor": "processor", "num_threads": "threads",
}  # fmt: skip
"""The facts about a run that the page shows, and their names there."""


_PLAIN = Look()


@dataclass(frozen=True)
class Shown:
    """A cell of the page. ``share`` is the darkness of its shade, from 0 to 1; rows are sorted by ``number``."""

    words: str
    spread: str
    number: float | None
    share: float | None
    best: bool
    worst: bool
    note: int | None
    place: int


@dataclass(frozen=True)
class Heat:
    """A table of the page: rows by block, each with its name in runs and that for readers.

    ``downloads`` are files within the page: name and address. ``differences`` are those of the rows from one of them.
    """

    title: str
    corner: str
    columns: Sequence[str]
    blocks: Sequence[tuple[str, Sequence[tuple[str, str, Sequence[Shown | None]]]]]
    notes: Sequence[str]
    downloads: Sequence[tuple[str, str]]
    differences: Sheet | None


@dataclass(frozen=True)
class Section:
    """The runs of one setting: their tables, and their curves if there are any."""

    title: str
    command: str
    remarks: Sequence[str]
    tables: Sequence[Heat]
    panels: Sequence[CurvePanel]
    curves_of: str

    @property
    def legend(self) -> list[Line]:
        """Each line of the panels once."""
        return [*{line.name: line for panel in self.panels for line in panel.lines}.values()]


def report(
    runs: pd.DataFrame,
    rows: str = "aggregator",
    columns: str = "attack",
    values: Sequence[str] = (),
    conditions: Sequence[str] = (),
    title: str = "",
    look: Look = _PLAIN,
) -> str:
    """The page on the runs of ``records.load`` that meet the conditions.

    Runs that cannot be in one table are shown in several sections, one for each setting. ``values`` are by default the
    final accuracy, or the test loss where no classes are predicted. Of ``look``, ``names`` are words for labels, and
    ``versus`` is the row from which the others' differences are shown, by default the first. Raises ConfigError for
    unknown names, NoRuns when no run can be read.
    """
    chosen = where(runs, conditions)
    check_name(rows, keys(runs), "key")
    check_name(columns, keys(runs), "key")
    usable = chosen[(chosen["state"] != "damaged") & chosen[[rows, columns]].notna().all(axis=1)]
    if not len(usable):
        raise NoRuns(UNREADABLE)
    data, sections, todos = _Data(look), [], []
    for split in parts(usable, (rows, columns)):
        section_runs = where(usable, split)
        names = values or ["final_accuracy" if section_runs["final_accuracy"].notna().any() else "test_loss"]
        tables = [pivot(runs, rows, columns, name, [*conditions, *split]) for name in names]
        todos += [todo for table in tables for todo in table.todos]
        sections.append(_section(tables, section_runs, (rows, columns), split, [*conditions, *split], data, look))
    counts = Counter(chosen["state"])
    return html.render(
        "report.html",
        title=title or f"{counted(len(chosen), 'run')}, {readable(rows)} by {readable(columns)}",
        made=f"robustfl_bench {__version__}, {date.today():%d %B %Y}".replace(", 0", ", "),
        states=[(state, counts[state]) for state in STATES if counts[state]],
        damaged=[(run["run"], run["error"]) for run in chosen[chosen["state"] == "damaged"].to_dict("records")],
        sections=sections,
        todos=grouped(todos),
        data=data.content,
        bodies=bodies,
        below=below,
        frame={"left": LEFT, "right": WIDTH, "bottom": BOTTOM, "height": HEIGHT},
    )


def _section(
    tables: Sequence[Table], runs: pd.DataFrame, axes: tuple[str, str], split: Sequence[str], conditions: Sequence[str],
    data: _Data, look: Look,
) -> Section:  # fmt: skip
    add = data.section(runs)
    value = tables[0].columns[0].value
    words = ["table", "--rows", axes[0], "--columns", axes[1], "--value", value.name]
    words += [word for condition in conditions for word in ("--where", condition)]
    return Section(
        title=", ".join(in_words(listed(condition)[0]) for condition in split),
        command=shlex.join(["robustfl-results", *words]),
        remarks=[*map(in_words, tables[0].remarks[1 if conditions else 0 :])],  # the first repeats the conditions
        tables=[_heat(table, axes[1], add, look) for table in tables],
        panels=panels(runs, value, *axes, look.names),
        curves_of=value.of_a_round,
    )


def _heat(table: Table, across: str, add: _Add, look: Look) -> Heat:
    blocks = []
    for block in table.blocks:
        best = {column.label: table.best(column, block) for column in table.columns}
        lines = []
        for row in table.rows:
            cells = [table.cells.get((block, row, column.label)) for column in table.columns]
            least = {cell.runs for cell in cells if cell is not None and cell.worst}
            lines.append((row, readable(row, look.names), [
                None if cell is None else
                _shown(table, cell, column, row in best[column.label], cell.runs in least, add(row, cell, column))
                for cell, column in zip(cells, table.columns, strict=True)
            ]))  # fmt: skip
        blocks.append((block, lines))
    return Heat(
        title=f"{table.columns[0].value.title} {table.columns[0].value.heading}".strip(),
        corner=readable(table.corner.partition(" / ")[0]),
        columns=[of_value(across, column.label, look.names) for column in table.columns],
        blocks=blocks,
        notes=[
            f"mean ± half of its {LEVEL:.0%} interval, n seeds; more shade is better, \u25be the worst of its row",
            *(f"bold: {bold}" for bold in [layout.bold(table, table.has_bold_by_mean)] if bold),
            *map(in_words, [*layout.footnotes(table), *agreement.mean_ranks(table)]),
        ],
        downloads=[_file(table, "csv", "csv", look), _file(table, "tex", "latex", look)],
        differences=_differences(table, look),
    )


def _file(table: Table, ending: str, form: str, look: Look) -> tuple[str, str]:
    """The name and the address of a table as a file in a format of ``layout.render``."""
    content = layout.render([table], form, replace(look, versus=""))
    address = f"data:text/plain;charset=utf-8;base64,{base64.b64encode(content.encode()).decode()}"
    return f"{table.columns[0].value.name}.{ending}", address


def _differences(table: Table, look: Look) -> Sheet | None:
    """The paired differences of the rows from one of them; None of a single row."""
    if len(table.rows) < 2:
        return None
    return with_names(replace(layout.versus(table, look.versus or table.rows[0]), names=look.names))


def _shown(table: Table, cell: Cell, column: Column, best: bool, least: bool, place: int) -> Shown:
    if not cell.seeds:
        return Shown(cell.state, "", None, None, False, False, cell.note, place)
    digits = column.value.digits
    bounds = interval([*cell.numbers.values()])
    half = f"±{bounds.high - bounds.mean:.{digits}f}" if bounds and math.isfinite(bounds.high) else ""
    return Shown(
        words=f"{cell.mean:.{digits}f}".replace("-", "\u2212") + table.marks(cell, is_bold=best),
        spread=f"{half} n={cell.seeds}".strip(),
        number=cell.mean,
        share=_share(table, cell, column.value),
        best=best,
        worst=least and not cell.worst,
        note=cell.note,
        place=place,
    )


def _share(table: Table, cell: Cell, value: Value) -> float | None:
    """Where a number is between the worst, 0, and the best, 1: of all possible percents, else of those of the table."""
    if value.unit in ("%", "points"):
        low, high = 0.0, 100.0
    else:
        means = [other.mean for (_, _, label), other in table.cells.items()
                 if other.seeds and math.isfinite(other.mean) and table.column(label).value == value]  # fmt: skip
        low, high = min(means, default=0.0), max(means, default=0.0)
    if not math.isfinite(cell.mean) or low == high:
        return None
    share = min(1.0, max(0.0, (cell.mean - low) / (high - low)))
    return round(1 - share if value.better < 0 else share, 3)


_Add = Callable[[str, Cell, Column], int]
"""Adds a cell of a row to a section; its number there."""


class _Data:
    """What the page's script shows of runs when it is asked, each pair of a name and a value once: ``content``."""

    def __init__(self, look: Look) -> None:
        self._names = look.names
        self._pairs: dict[tuple[str, str], int] = {}
        self._sections: list[dict[str, Any]] = []

    @property
    def content(self) -> dict[str, Any]:
        """To be written as JSON."""
        return {"pairs": list(self._pairs), "sections": self._sections}

    def section(self, runs: pd.DataFrame) -> _Add:
        """Add the runs of a section; returns what adds its cells."""
        facts, common_facts = self._split(runs[[*_MADE_OF]].rename(columns=_MADE_OF))
        own, common = self._split(runs[settings(runs)])
        entries = [
            {
                "name": run["run"],
                "seed": text(run["seed"]),
                "state": run["state"],
                "command": run["command"] if isinstance(run["command"], str) else commands.again(run),
                "facts": its_facts,
                "settings": its_own,
            }
            for run, its_facts, its_own in zip(runs.to_dict("records"), facts, own, strict=True)
        ]
        cells: list[dict[str, Any]] = []
        self._sections.append({"facts": common_facts, "settings": common, "runs": entries, "cells": cells})
        places = {folder: place for place, folder in enumerate(runs["folder"])}

        def add(row: str, cell: Cell, column: Column) -> int:
            cell_places = [places[folder] for folder in cell.runs]
            numbers = [cell.numbers.get(entries[place]["seed"]) for place in cell_places]
            written_numbers = ["" if number is None else f"{number:.{column.value.digits}f}" for number in numbers]
            title = " / ".join(readable(label, self._names) for label in (row, column.label))
            cells.append({"title": title, "runs": cell_places, "numbers": written_numbers})
            return len(cells) - 1

        return add

    def _split(self, table: pd.DataFrame) -> tuple[list[list[int]], list[int]]:
        """The pairs of each run, and those that all runs share, as their places."""
        own: list[list[int]] = [[] for _ in range(len(table))]
        common = []
        for name in table:
            words = [written(value) for value in table[name]]
            if len(set(words)) == 1:
                common += [self._place(str(name), words[0])] if words[0] else []
                continue
            for run, word in zip(own, words, strict=True):
                if word:
                    run.append(self._place(str(name), word))
        return own, common

    def _place(self, name: str, value: str) -> int:
        return self._pairs.setdefault((name, value), len(self._pairs))
