"""Tables as text, Markdown, LaTeX (booktabs), CSV, HTML and JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from robustfl_bench.base.console import printable
from robustfl_bench.read.runs.statistics import COMPARED, paired
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import agreement, sheets
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.read.tables.table import AS_PRINTED, FEW, SPREAD_ONLY, WORST, Cell, Column, Table
from robustfl_bench.runner.store.lines import guarded

FORMATS = tuple(sheets.FORMATS)
_INCOMPLETE = f"* not complete: fewer seeds than elsewhere, or for {WORST} an attack without a full result"
_WITHOUT_ATTACKS = "* some attacks are not measured: not compared"
_COMPARED = ("published", "published_mean", "difference", "tolerance", "inside", "inside_by")


@dataclass(frozen=True)
class Look:
    """How tables are laid out.

    ``compact``: one line for each row, without numbers of seeds. ``versus``: the differences to this row in place of
    numbers. ``caption``, ``label``, ``width``, ``names`` and ``bare`` are those of ``Sheet``.
    """

    compact: bool = False
    versus: str = ""
    caption: str = ""
    label: str = ""
    width: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False


def render(tables: Sequence[Table], form: str, look: Look = Look()) -> str:
    """The tables one below the other, then once what they lack; ``form`` is one of FORMATS.

    Raises ConfigError when a table lacks the row of ``look.versus``.
    """
    if form == "csv" and not look.versus:
        return _csv(tables)
    make = partial(versus, rival=look.versus) if look.versus else partial(sheet, compact=look.compact)
    return render_sheets([make(table) for table in tables], form, look)


def render_sheets(made: Sequence[Sheet], form: str, look: Look) -> str:
    """The sheets in this format, with the caption, the label and the rest that is asked for."""
    asked = {name: getattr(look, name) for name in ("caption", "label", "width", "names", "bare")}
    given = {name: value for name, value in asked.items() if value}
    return sheets.FORMATS[form]([replace(sheet, **given) for sheet in made])


def sheet(table: Table, compact: bool = False) -> Sheet:
    """The table; ``compact`` as in ``Look``."""
    labels = [table.corner, *([""] if table.compared and not compact else [])]
    units = {column.value.heading for column in table.columns}
    headings = [f"{column.label} {column.value.heading}".strip() if len(units) > 1 else column.label
            for column in table.columns]  # fmt: skip
    rows = []
    for block in table.blocks:
        rows += [[Printed(block), *[Printed("")] * (len(labels) + len(headings) - 1)]] if block else []
        best = {column.label: table.best(column, block) for column in table.columns}
        for row in table.rows:
            rows += [_compact(table, block, row, best)] if compact else _lines(table, block, row, best)
    return Sheet(
        above=[_title(table, compact), *_measures(table), *table.remarks],
        heading=[*labels, *headings],
        rows=rows,
        labels=len(labels),
        footnotes=footnotes(table, differences=not compact),
        bold=bold(table, table.has_bold_by_mean),
        report=[*(agreement.report(table) if table.compared else ()), *agreement.mean_ranks(table)],
        todos=table.todos,
    )


def _title(table: Table, compact: bool) -> str:
    notation = table.notation if not compact else _compactly(table) if table.compared else ""
    return ": ".join(filter(None, (table.title, notation)))


def _compactly(table: Table) -> str:
    """How a line that holds measured and published numbers is read, with the seeds that the means are of."""
    counts = [cell.seeds for cell in table.cells.values() if cell.seeds and not cell.worst]
    seeds = f" of {agreement.span(counts)} seed{'s' * (max(counts) > 1)}" if counts else ""
    return f"measured mean{seeds} (published)"


def bold(table: Table, by_mean: bool) -> str:
    """What bold means, whether the seeds are too few for it, and what a question mark means if some are ``by_mean``."""
    if not table.seeds or not any(column.value.better for column in table.columns):
        return ""
    fewest, most = table.seeds[0], table.seeds[-1]
    if most < COMPARED:
        seeds = "one seed" if most == 1 else f"{most} seeds"
        return f"the best number of its column; with {seeds}, differences cannot be told from noise"
    few = f"; with {fewest} seeds few differences can be told" if fewest == most < FEW else ""
    few = few or "; only cells with the most seeds of their column" * (fewest < most)
    few += "; stand-ins among themselves" * (len(table.kinds) > 1)
    few += f"; ?: the best mean alone, fewer than {COMPARED} seeds" * by_mean
    return f"tied with the best of its column, by paired differences over shared seeds (95%){few}"


def _measures(table: Table) -> list[str]:
    """What the numbers mean, if the title does not say it."""
    if not table.shows_seeds:
        return []
    titles = dict.fromkeys(column.value.title for column in table.columns)
    worst = [f"{column.label}: the worst of the attacks" for column in table.columns if column.worst]
    return ["; ".join([*titles, *worst])]


def _lines(table: Table, block: str, row: str, best: Mapping[str, set[str]]) -> list[list[Printed]]:
    """The measured numbers of a row; below them any published numbers and differences."""
    measured, published, difference = [], [], []
    for column in table.columns:
        cell = table.cells.get((block, row, column.label))
        if cell is None:  # the paper prints a dash
            line = [Printed("-")] * 3
        else:
            digits, against = column.value.digits, cell.against
            line = [
                Printed(_number(table, cell, digits, row in best[column.label]), row in best[column.label], cell.note),
                Printed(against.printed, row in table.best_published(column, block), against.note)
                if against
                else Printed(""),
                Printed(_difference(table, cell, digits)),
            ]
        measured.append(line[0])
        published.append(line[1])
        difference.append(line[2])
    if not table.compared:
        return [[Printed(row), *measured]]
    lines = [[Printed(row), Printed("measured"), *measured], [Printed(""), Printed("published"), *published]]
    if not table.order_only and any(cell.text not in ("", "-") for cell in difference):
        lines.append([Printed(""), Printed("difference"), *difference])
    return lines


def _compact(table: Table, block: str, row: str, best: Mapping[str, set[str]]) -> list[Printed]:
    """A row on one line: ``92.1 (92.5)``, measured and published, or without published numbers ``92.1±0.3``."""
    line = [Printed(row)]
    for column in table.columns:
        cell = table.cells.get((block, row, column.label))
        if cell is None:  # the paper prints a dash
            line.append(Printed("-"))
            continue
        words = f"{cell.mean:.{column.value.digits}f}" if cell.seeds else cell.state
        if cell.against:
            words += f" ({cell.against.number:.{column.value.digits}f})"
        elif cell.seeds > 1:
            words += f"±{cell.sd:.{column.value.digits}f}"
        is_bold = row in best[column.label]
        line.append(Printed(words + table.marks(cell, is_bold=is_bold), is_bold, cell.note))
    return line


def versus(table: Table, rival: str) -> Sheet:
    """The differences of all other rows to the row ``rival``, with their paired 95% intervals over shared seeds.

    Bold: the interval does not contain 0, and both cells are complete. Raises ConfigError when there is no such row.
    """
    check_name(rival, table.rows, "row")
    rows = []
    for block in table.blocks:
        rows += [[Printed(block), *[Printed("")] * len(table.columns)]] if block else []
        for row in table.rows:
            if row != rival:
                cells = [_versus(table, block, row, rival, column) for column in table.columns]
                rows.append([Printed(row), *cells])
    starred = any(cell.text.endswith("*") for row in rows for cell in row[1:])
    return Sheet(
        above=[f"{table.title}; each row less {rival}, with its paired 95% interval over shared seeds", *table.remarks],
        heading=[table.corner, *(column.label for column in table.columns)],
        rows=rows,
        footnotes=[*_rounded(table), *_stand_ins(table), *([_star(table)] if starred else [])],
        bold="the interval does not contain 0; intervals are not widened for their number",
    )


def _versus(table: Table, block: str, row: str, rival: str, column: Column) -> Printed:
    cell, other = (table.cells.get((block, name, column.label)) for name in (row, rival))
    if cell is None or other is None or not cell.seeds or not other.seeds or cell.stand_in != other.stand_in:
        return Printed("-")
    digits = column.value.digits
    marks = table.marks(cell, other)
    difference = paired(cell.numbers, other.numbers)
    if difference is None:
        shared = [cell.numbers[seed] - other.numbers[seed] for seed in cell.numbers if seed in other.numbers]
        return Printed(f"{agreement.signed(shared[0], digits)} (1 seed){marks}" if shared else "no shared seed")
    bounds = ", ".join(f"{bound:.{digits}f}" for bound in (difference.low, difference.high))
    return Printed(
        f"{agreement.signed(difference.mean, digits)} [{bounds}]{marks}", not difference.has_zero and "*" not in marks
    )


def _number(table: Table, cell: Cell, digits: int, is_bold: bool) -> str:
    seeds = f" [n={cell.seeds}]" if table.shows_seeds and cell.seeds and not cell.worst else ""
    return cell.text(digits) + table.marks(cell, is_bold=is_bold) + seeds


def _rounded(table: Table) -> list[str]:
    """What a tilde means, if a cell has one."""
    types = dict.fromkeys(cell.rounded for cell in table.cells.values() if cell.rounded)
    return [f"~ computed with products whose factors are rounded to {', '.join(types)}"] if types else []


def _stand_ins(table: Table) -> list[str]:
    """What the letters of stand-ins mean."""
    kinds = [words for words in table.kinds if words]
    return [f"{table.mark(words)} stand-in, not the paper's own settings: {words}" for words in kinds]


def _difference(table: Table, cell: Cell, digits: int) -> str:
    if cell.inside is None:
        return ""
    difference = "" if cell.difference is None else f"{agreement.signed(cell.difference, digits)} "
    near = {"": "OUT", SPREAD_ONLY: "in (sd)"}.get(cell.inside_by, "in")
    return f"{difference}{near}{table.mark(cell.stand_in) if cell.stand_in else ''}"


def _star(table: Table) -> str:
    """What a star means."""
    return _WITHOUT_ATTACKS if table.shows_seeds else _INCOMPLETE


def footnotes(table: Table, differences: bool = True) -> list[str]:
    """What marks in cells mean; with ``differences``, which the table shows, also how near is ``in``."""
    notes = [f"[{number}] {reason}" for number, reason in enumerate(table.notes, 1)]
    notes += _rounded(table) + _stand_ins(table)
    if any(table.incomplete(cell) for cell in table.cells.values()):
        notes.append(_star(table))
    if not table.compared:
        return notes
    if table.order_only:
        return [*notes, "measured on other data than published: compare the order of the methods, not the numbers"]
    if not differences:
        return notes
    near = f"in / OUT: within {agreement.tolerance(table)} of the published number, or not"
    if any(cell.inside_by == SPREAD_ONLY for cell in table.cells.values()):
        near += f"; in (sd): {SPREAD_ONLY}"
    return [*notes, f"{near}; a model that diverged is in if it {AS_PRINTED}" if table.diverged else near]


def _csv(tables: Sequence[Table]) -> str:
    """One line per cell, all tables below each other. ``state`` and ``reason`` say why there is no number.

    ``published`` is the number as printed, ``published_mean`` the one compared: of a worst case they may differ.
    """
    compared = any(table.compared for table in tables)
    names = dict.fromkeys(name for table in tables for cell in table.cells.values() for name in cell.key)
    out = io.StringIO()
    rounded = any(cell.rounded for table in tables for cell in table.cells.values())
    columns = ["value", "unit", *names, "mean", "sd", "seeds", *(_COMPARED if compared else ()), "state", "reason"]
    stand_ins = any(cell.stand_in for table in tables for cell in table.cells.values())
    columns += ["rounded"] * rounded + ["stand_in"] * stand_ins
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for table in tables:
        for (_, _, label), cell in table.in_order():
            value = table.column(label).value
            notes = (cell.note, cell.against.note if cell.against else None)
            row: dict[str, object] = {
                "value": value.name,
                "unit": value.unit,
                **cell.key,
                "mean": cell.mean if cell.seeds else "",
                "sd": cell.sd if cell.seeds > 1 else "",
                "seeds": cell.seeds,
                "state": cell.state or ("incomplete" if cell.partial else "complete"),
                "reason": "; ".join(table.notes[note - 1] for note in notes if note),
            }
            row |= _compared(cell) | ({"rounded": cell.rounded} if rounded else {})
            row |= {"stand_in": cell.stand_in} if stand_ins else {}
            words = {name: guarded(printable(value)) for name, value in row.items() if isinstance(value, str)}
            writer.writerow(row | words)
    return out.getvalue()


def _compared(cell: Cell) -> dict[str, object]:
    if cell.against is None:
        return {}
    return {
        "published": cell.against.printed,
        "published_mean": cell.against.reference,
        "difference": "" if cell.difference is None else cell.difference,
        "tolerance": cell.tolerance,
        "inside": "" if cell.inside is None else str(cell.inside).lower(),
        "inside_by": cell.inside_by,
    }
