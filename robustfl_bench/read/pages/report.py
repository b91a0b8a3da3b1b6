"""One HTML page on many runs: tables with intervals, shaded as heat maps, curves as small figures in SVG, and the runs
behind every number."""

from __future__ import annotations

import base64
import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

from robustfl_bench import __version__
from robustfl_bench.base.console import counted
from robustfl_bench.base.late import pd
from robustfl_bench.read.pages import plots
from robustfl_bench.read.pages.pictures.styles import BLACK, Style, series, styles
from robustfl_bench.read.runs import commands
from robustfl_bench.read.runs.records import STATES, NoRuns, settings, text, written
from robustfl_bench.read.runs.statistics import LEVEL, interval
from robustfl_bench.read.runs.values import Value, describe
from robustfl_bench.read.runs.where import UNREADABLE, check_name, keys, listed, parts, where
from robustfl_bench.read.tables import agreement, layout
from robustfl_bench.read.tables.layout import Look
from robustfl_bench.read.tables.pivot import pivot
from robustfl_bench.read.tables.sheets import Sheet, below, bodies, joined, rendered, with_names
from robustfl_bench.read.tables.table import Cell, Column, Table
from robustfl_bench.runner.config.names import in_words, of_value, readable

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
    return rendered(
        "report.html",
        title=title or f"{counted(len(chosen), 'run')}, {readable(rows)} by {readable(columns)}",
        made=f"robustfl_bench {__version__}, {date.today():%d %B %Y}".replace(", 0", ", "),
        states=[(state, counts[state]) for state in STATES if counts[state]],
        damaged=[(run["run"], run["error"]) for run in chosen[chosen["state"] == "damaged"].to_dict("records")],
        sections=sections,
        todos=joined(todos),
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
        title=table.columns[0].value.with_unit,
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


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 300, 190, 34, 8, 168
"""Of a panel; the lines are between LEFT and WIDTH, TOP and BOTTOM."""

_POINTS = 40  # of a line: a small figure shows no more
_BANDS = 5  # lines: the bands of more would cover each other
_OF_A_ROUND = {"final_accuracy": "test_accuracy"}  # columns of metrics.csv that have another name than their value
_DASHES = {"-": "", "--": "6 3", "-.": "6 3 1.5 3", ":": "1.5 3"}

Tick = tuple[float, str]


@dataclass(frozen=True)
class Line:
    """A line of a panel and the band of its seeds, from lowest to highest, as SVG paths.

    ``title`` is its name for readers. Without a ``colour`` it has that of the text, without ``dashes`` it is solid.
    """

    name: str
    title: str
    colour: str
    dashes: str
    path: str
    band: str


@dataclass(frozen=True)
class CurvePanel:
    """A small figure with its ticks; all panels of a plot have the same axes."""

    title: str
    lines: Sequence[Line]
    across: Sequence[Tick]
    up: Sequence[Tick]


def panels(
    runs: pd.DataFrame, value: Value, lines: str, across: str, names: Mapping[str, str] = MappingProxyType({})
) -> list[CurvePanel]:
    """The value of finished runs against the round, mean over seeds: a panel for each value of the setting ``across``.
    ``names`` are words for labels.

    Empty if no run has a folder, as kept ones, or if the value is not that of a round.
    """
    chosen = runs[(runs["state"] == "finished") & runs["folder"].map(lambda folder: Path(folder).is_dir())]
    if not len(chosen):
        return []
    shown = describe(_OF_A_ROUND.get(value.name, value.name), chosen)
    chosen = chosen[["run", "folder"]].assign(line=chosen[lines].map(text), panel=chosen[across].map(text))
    try:
        points = plots.curves_of_rounds(chosen, shown, "minmax").dropna()
    except NoRuns:
        return []
    labels = list(dict.fromkeys(points["line"]))
    drawn = styles(labels) if plots.are_methods(lines) else series(labels)
    scale = _Scale(points, percents=shown.unit == "%")
    return [
        CurvePanel(of_value(across, str(panel), names), [
            _line(str(name), readable(str(name), names), drawn[str(name)], curve, scale, len(labels) <= _BANDS)
            for name, curve in of_panel.groupby("line", sort=False)], scale.across, scale.up)
        for panel, of_panel in points.groupby("panel", sort=False)
    ]  # fmt: skip


class _Scale:
    """From rounds and numbers to places in a panel, with the ticks of its axes."""

    def __init__(self, points: pd.DataFrame, percents: bool) -> None:
        from matplotlib.ticker import MaxNLocator

        self._rounds = int(points["x"].min()), int(points["x"].max())
        self._numbers = (0.0, 100.0) if percents else (float(points["low"].min()), float(points["high"].max()))
        across = MaxNLocator(4, integer=True).tick_values(*self._rounds)
        up = MaxNLocator(4).tick_values(*self._numbers)
        (first, last), (low, high) = self._rounds, self._numbers
        self.across = [(self.x(tick), f"{tick:g}") for tick in across if first <= tick <= last]
        self.up = [(self.y(tick), f"{tick:g}") for tick in up if low <= tick <= high]

    def x(self, done: float) -> float:
        first, last = self._rounds
        return LEFT + (WIDTH - LEFT) * (done - first) / ((last - first) or 1)

    def y(self, number: float) -> float:
        low, high = self._numbers
        return BOTTOM - (BOTTOM - TOP) * (number - low) / ((high - low) or 1)

    def path(self, rounds: Sequence[int], numbers: Sequence[float]) -> str:
        places = zip(map(self.x, rounds), map(self.y, numbers), strict=True)
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _line(name: str, title: str, style: Style, curve: pd.DataFrame, scale: _Scale, with_band: bool) -> Line:
    step = -(-(len(curve) - 1) // (_POINTS - 1)) or 1
    columns = (list(curve[column]) for column in ("x", "mean", "low", "high"))
    rounds, means, low, high = (values[::-step][::-1] for values in columns)  # the last round is one of them
    band = f"{scale.path(rounds, low)}L{scale.path(rounds[::-1], high[::-1])[1:]}z" if with_band and low != high else ""
    colour, _, dash = style
    dashes = _DASHES[dash] if isinstance(dash, str) else " ".join(map(str, dash[1]))
    return Line(name, title, "" if colour == BLACK else colour, dashes, scale.path(rounds, means), band)
