"""The tables of ``tables.pivot`` as text, Markdown, LaTeX (booktabs), CSV and HTML."""

import csv
import io
from collections.abc import Sequence

from robustfl_bench.results import sheets
from robustfl_bench.results.sheets import Printed, Sheet
from robustfl_bench.results.tables import WORST, Table

FORMATS = ("text", "markdown", "latex", "csv", "html")
_INCOMPLETE = f"* not complete: fewer seeds than elsewhere, or for {WORST} an attack without a full result"


def render(tables: Sequence[Table], form: str) -> str:
    """The tables one below the other, then once what they lack; ``form`` is one of FORMATS."""
    return _csv(tables) if form == "csv" else sheets.FORMATS[form](list(map(_sheet, tables)))


def _sheet(table: Table) -> Sheet:
    selection = [f"where {', '.join(table.conditions)}"] if table.conditions else []
    incomplete = [_INCOMPLETE] if any(cell.partial for cell in table.cells.values()) else []
    best = {column: table.best(column) for column in table.columns}
    rows = []
    for row in table.rows:
        line = [Printed(row)]
        for column in table.columns:
            cell = table.cells[row, column]
            written = cell.text(table.value.digits) + "*" * cell.partial
            line.append(Printed(written, best=row in best[column], note=cell.note))
        rows.append(line)
    return Sheet(
        above=[table.caption, *selection, *table.remarks],
        heading=[table.corner, *table.columns],
        rows=rows,
        footnotes=[*(f"[{number}] {reason}" for number, reason in enumerate(table.notes, 1)), *incomplete],
        todos=table.todos,
    )


def _csv(tables: Sequence[Table]) -> str:
    """One line per cell, all values below each other; where there is no number, ``state`` and ``reason`` say why."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = tables[0]
    writer.writerow(["value", "unit", first.row_key, first.column_key, "mean", "sd", "seeds", "state", "reason"])
    for table in tables:
        for (row, column), cell in table.cells.items():
            mean = cell.mean if cell.seeds else ""
            spread = cell.sd if cell.seeds > 1 else ""
            seeds: int | str = "" if column == WORST else cell.seeds
            state = cell.state or ("incomplete" if cell.partial else "complete")
            reason = table.notes[cell.note - 1] if cell.note else ""
            writer.writerow([table.value.name, table.value.unit, row, column, mean, spread, seeds, state, reason])
    return out.getvalue()
