"""Tables in the layout of their paper: its rows, groups of columns and words, with one or several of our tables in it.

A layout is data, ``layouts`` in a paper's YAML file (``read/papers/README.md``). Its cells are those of tables that are
filled with runs, so that bold type, marks and footnotes mean what they mean there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.tables import agreement, layout, sheets
from robustfl_bench.read.tables.claims import Key, check_keys
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.read.tables.table import Column, Table, add_note

_KEYS = ("caption", "corner", "rows", "parts", "groups", "spread", "transposed")
_PLACE_KEYS = ("label", "table", "block", "columns")
_JOINED = " / "  # between the columns that the paper prints in one
PRINTED = "printed"
"""The label of the line with what the paper prints."""


@dataclass(frozen=True)
class PaperPlace:
    """A part of the rows, or a group of the columns: what the paper calls it, and the table and block of its cells
    (empty where the other says it). ``columns`` are those of a group, and what the paper calls them."""

    labels: tuple[str, ...]
    table: str = ""
    block: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperLayout:
    """How a paper prints a table.

    The ``corner`` is above the names of rows; with several words, the parts have columns of their own before them.
    ``rows`` and columns are by our labels, in the paper's order. A ``spread`` such as `` ± `` stands in place of
    brackets. ``transposed``: the rows are across.
    """

    name: str
    caption: str
    corner: tuple[str, ...]
    rows: Mapping[str, str]
    parts: tuple[PaperPlace, ...]
    groups: tuple[PaperPlace, ...]
    spread: str = ""
    transposed: bool = False

    @property
    def tables(self) -> list[str]:
        """The names of the tables whose cells it shows."""
        return list(dict.fromkeys(place.table for place in (*self.parts, *self.groups) if place.table))

    @property
    def columns(self) -> list[tuple[PaperPlace, str, str]]:
        """Each column: its group, our label and the paper's."""
        return [(group, label, words) for group in self.groups for label, words in group.columns.items()]

    def key(self, part: PaperPlace, row: str, group: PaperPlace, column: str) -> tuple[str, Key]:
        """The table of a cell, and its key there."""
        return part.table or group.table, (part.block or group.block, row, column)


def read_layouts(
    section: Mapping[str, Any], tables: Mapping[str, Sequence[Key]], paper: str, where: str
) -> dict[str, PaperLayout]:
    """The layouts of a paper, by name; ``tables`` are the keys of the cells of each of its tables. Raises ConfigError
    for a layout that shows what no table has."""
    return {f"{paper}/{name}": _read(f"{paper}/{name}", entry, tables, f"{where}: layout {name}")
            for name, entry in section.items()}  # fmt: skip


def _read(name: str, entry: Any, tables: Mapping[str, Sequence[Key]], where: str) -> PaperLayout:
    paper = name.partition("/")[0]
    check_keys(entry, _KEYS, where, needed=("caption", "rows", "groups"))

    def place(item: Any, needed: str) -> PaperPlace:
        check_keys(item, _PLACE_KEYS, where, needed=(needed,))
        table = f"{paper}/{item['table']}" if "table" in item else ""
        label = item.get("label", "")
        labels = tuple(map(str, label)) if isinstance(label, list) else (str(label),)
        return PaperPlace(labels, table, str(item.get("block", "")), _words(item.get("columns", {})))

    shown = PaperLayout(
        name,
        entry["caption"],
        tuple(entry["corner"]) if isinstance(entry.get("corner"), list) else (entry.get("corner", ""),),
        _words(entry["rows"]),
        tuple(place(item, "table") for item in entry.get("parts", [])) or (PaperPlace(("",)),),
        tuple(place(item, "columns") for item in entry["groups"]),
        entry.get("spread", ""),
        bool(entry.get("transposed", False)),
    )
    for part in shown.parts:
        for group, columns, _ in shown.columns:
            for column in columns.split(_JOINED):
                keys = [shown.key(part, row, group, column) for row in shown.rows]
                if not any(key in tables.get(table, ()) for table, key in keys):
                    table, (block, _, _) = keys[0]
                    raise ConfigError(f"{where}: no cell of {' / '.join(filter(None, (table, block, column)))}")
    return shown


def _words(entry: Any) -> dict[str, str]:
    """Our labels and the paper's; a list where both are the same."""
    return {str(label): str(entry[label] if isinstance(entry, Mapping) else label) for label in entry}


def arrange(shown: PaperLayout, tables: Mapping[str, Table], given: Mapping[str, str]) -> Sheet:
    """The tables in the paper's layout. Where published numbers are compared, they have a line of their own below the
    measured ones. ``given`` are words for our labels in place of the paper's."""
    cells = _Cells(shown, tables)
    columns = [(given.get(label, words), group.labels[0]) for group, label, words in shown.columns]
    rows = [(given.get(label, words), "") for label, words in shown.rows.items()]
    down, across = (columns, rows) if shown.transposed else (rows, columns)
    lines = list[list[Printed]]()
    for part in shown.parts:
        aside = list(part.labels) if len(shown.corner) > 1 else []
        if part.labels[0] and not aside:
            lines.append([Printed(part.labels[0]), *[Printed("")] * len(across)])
        measured = cells.grid(part, published=False)
        printed = cells.grid(part, published=True) if cells.whole.compared else [()] * len(measured)
        for (words, _), ours, theirs in zip(down, measured, printed, strict=True):
            for name, numbers in ((words, ours), (PRINTED, theirs)):
                if any(number.text for number in numbers):
                    lines.append([*map(Printed, aside), Printed(name), *numbers])
                    aside = [""] * len(aside)
    groups = [group for _, group in across]
    by_mean = any(cell.best and cell.text.endswith("?") for line in lines for cell in line)
    return Sheet(
        above=[shown.caption, *cells.whole.remarks],
        heading=[*shown.corner, *(words for words, _ in across)],
        groups=[*[""] * len(shown.corner), *groups] if any(groups) else (),
        rows=lines,
        labels=len(shown.corner),
        footnotes=[*cells.counts, *layout.footnotes(cells.whole, differences=False)],
        bold=layout.bold(cells.whole, by_mean).replace("column", "row" if shown.transposed else "column"),
        caption=sheets.latex_words(shown.caption.partition(": ")[2]) + ".",  # LaTeX numbers its tables
        todos=cells.whole.todos,
    )


class _Cells:
    """The cells of the tables of a layout, as they are printed.

    ``whole`` is one table with the cells, notes and todos of all, whose footnotes have numbers of their own."""

    def __init__(self, shown: PaperLayout, tables: Mapping[str, Table]) -> None:
        self.shown = shown
        self.columns: dict[tuple[str, str], Column] = {}
        self.bold: set[tuple[bool, Key]] = set()
        first, *_ = tables.values()
        self.whole = replace(
            first, cells={}, notes=[], remarks=[], todos=[], stand_ins={}, too_small={}, shows_seeds=False
        )
        for name, table in tables.items():
            self._add(name, table)

    def _add(self, name: str, table: Table) -> None:
        whole = self.whole
        for (block, row, column), cell in table.cells.items():
            against = cell.against and replace(cell.against, note=self._moved(cell.against.note, table))
            moved = replace(cell, note=self._moved(cell.note, table), against=against)
            whole.cells[f"{name} {block}", row, column] = moved
        for heading in table.columns:
            self.columns[name, heading.label] = heading
            for block in table.blocks:
                for published, best in ((False, table.best), (True, table.best_published)):
                    self.bold |= {(published, (f"{name} {block}", row, heading.label)) for row in best(heading, block)}
        whole.stand_ins |= table.stand_ins
        whole.remarks += [f"{name}: {line}" for line in table.remarks]
        whole.todos += table.todos

    def _moved(self, note: int | None, table: Table) -> int | None:
        """The number that a footnote of the table has in the whole."""
        return add_note(self.whole.notes, table.notes[note - 1]) if note else None

    @property
    def counts(self) -> list[str]:
        """Over how many seeds the measured numbers are."""
        seeds = [cell.seeds for cell in self.whole.cells.values() if cell.seeds and not cell.worst]
        over = f"here: mean (sample sd) over {agreement.span(seeds)} seed{'s' * (max(seeds) > 1)}" if seeds else ""
        return [over + f"; {PRINTED}: as the paper has it" * self.whole.compared] if seeds else []

    def grid(self, part: PaperPlace, published: bool) -> list[Sequence[Printed]]:
        """The measured or the published numbers of a part, line by line."""
        rows: list[Sequence[Printed]] = [
            [
                _in_one([self._cell(*self.shown.key(part, row, group, label), published)
                         for label in labels.split(_JOINED)])
                for group, labels, _ in self.shown.columns
            ]
            for row in self.shown.rows
        ]  # fmt: skip
        return list(zip(*rows, strict=True)) if self.shown.transposed else rows

    def _cell(self, table: str, key: Key, published: bool) -> Printed:
        """A number, without its spread in a column of worst cases; a dash where the paper prints one, and nothing in a
        row that the table does not have."""
        block, row, label = key
        key = f"{table} {block}", row, label
        column, cell = self.columns.get((table, label)), self.whole.cells.get(key)
        if column is None or cell is None:
            has_row = any(other[:2] == key[:2] for other in self.whole.cells)
            return Printed("-" if has_row else "")
        against = cell.against
        if published:
            words, note = (against.printed, against.note) if against else ("", None)
        else:
            words, note = cell.text(column.value.digits), cell.note
        words = words.partition(" (")[0] if column.worst else words
        words = re.sub(r" \((\S+)\)$", rf"{self.shown.spread}\1", words) if self.shown.spread else words
        is_bold = (published, key) in self.bold
        return Printed(words if published else words + self.whole.marks(cell, is_bold=is_bold), is_bold, note)


def _in_one(cells: Sequence[Printed]) -> Printed:
    """The numbers that the paper prints in one cell, which is bold if the first is."""
    words = [cell.text for cell in cells if cell.text]
    return cells[0] if {*words} <= {"-"} else replace(cells[0], text=_JOINED.join(words))
