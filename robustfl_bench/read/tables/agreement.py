"""How well measured and published numbers of a table agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robustfl_bench.read.runs.statistics import rank_correlation, ranks
from robustfl_bench.read.runs.values import Value
from robustfl_bench.read.tables.table import PARTS, POINTS, SPREADS, Cell, Column, Key, Table

_FEWEST = 3  # rows that a rank correlation needs
_LARGEST = 5  # gaps that are listed
_CONDITIONS = 5  # columns that mean ranks need


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation between measured and published numbers of the rows in one column of a block, measured
    with the table's own settings or with those of one ``stand_in``."""

    block: str
    column: str
    rows: int
    rho: float
    stand_in: str = ""

    @property
    def text(self) -> str:
        """The coefficient with two decimals, or a dash."""
        return "-" if math.isnan(self.rho) else f"{self.rho:.2f}"

    @property
    def line(self) -> str:
        """Block, column, coefficient and number of rows."""
        return " ".join(filter(None, (self.block, self.column, self.text, f"({self.rows})")))


def points(value: Value) -> float:
    """One percentage point in the unit of the value; for a value that follows from a formula, half of the last
    decimal."""
    return {"fraction": 0.01, "Mbit": 0.00025}.get(value.unit, 1)


def correlations(table: Table) -> list[Correlation]:
    """The rank correlation of each column of each block with enough measured rows; nan if all rows are equal. Cells of
    a stand-in are ranked among themselves."""
    coefficients = []
    for stand_in in table.kinds:
        cells = table.judged_as(stand_in)
        for block in table.blocks:
            for column in (column.label for column in table.columns):
                judged = [cell for (other, _, label), cell in cells.items()
                          if (other, label) == (block, column) and cell.difference is not None]  # fmt: skip
                if len(judged) >= _FEWEST:
                    rho = rank_correlation([cell.mean for cell in judged], [_reference(cell) for cell in judged])
                    coefficients.append(Correlation(block, column, len(judged), rho, stand_in))
    return coefficients


def gaps(table: Table) -> list[tuple[Key, Cell]]:
    """The cells that differ from their published number in the decimals that are printed, largest difference first, all
    counted in percentage points."""
    unlike = [(key, cell) for key, cell in table.judged.items()
              if round(cell.difference or 0, table.column(key[2]).value.digits)]  # fmt: skip
    return sorted(unlike, key=lambda item: -abs(item[1].difference or 0) / points(table.column(item[0][2]).value))


def tolerance(table: Table) -> str:
    """How far a measured number may be from the published one, in words."""
    unit = min(points(column.value) for column in table.columns)
    amount = f"{POINTS} points" if unit == 1 else f"{POINTS * unit:g}"
    against = [(cell, cell.against) for cell in table.cells.values() if cell.against and cell.against.sd]
    kinds = {"welch" if cell.seeds > 1 and other.seeds > 1 else "sd" for cell, other in against}
    words = {"sd": f"{SPREADS} published sd", "welch": "Welch's 95% interval"}
    others = " or, where both sides have several seeds, ".join(words[kind] for kind in sorted(kinds))
    return f"the larger of {amount} and {others}" if kinds else amount


def seeds(table: Table) -> str:
    """How many of the paper's seeds the measured cells have; empty if the paper does not give their number."""
    counts = [(cell.seeds, cell.against.seeds) for cell in table.cells.values() if not cell.stand_in
              if cell.seeds and not cell.worst and cell.against and cell.against.seeds]  # fmt: skip
    if not (lacking := sum(ours < theirs for ours, theirs in counts)):
        return ""
    theirs = max(theirs for _, theirs in counts)
    have = span([ours for ours, _ in counts])
    return f"seeds: {have} of the paper's {theirs}; fewer than published in {lacking} of {len(counts)} cells"


def span(counts: Sequence[int]) -> str:
    """The least and the largest of some numbers: ``1 to 3``, or ``3``."""
    return " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))


def report(table: Table) -> list[str]:
    """A few lines on how well measured and published numbers agree; for a stand-in, only on the order of rows."""
    judged, total = table.judged, len(table.cells)
    states = sorted(table.lacking.items(), key=lambda item: (-item[1], item[0]))
    lacking = ", ".join(f"{count} {state}" for state, count in states)
    compared = f"{len(judged)} of {total} cells are compared{f' ({lacking})' if lacking else ''}"
    lines = [f"agreement: {compared if table.order_only else f'{_inside(judged)}; {compared}'}"]
    lines += [
        f"stand-ins, counted apart: {_inside(table.judged_as(words))} ({words})" for words in table.kinds if words
    ]
    lines += [f"counted nowhere: {words}" for words in table.too_small.values()]
    lines += filter(None, [seeds(table)])
    ranks = ", ".join(
        f"{rank.line}{table.mark(rank.stand_in) if rank.stand_in else ''}" for rank in correlations(table)
    )
    lines += [f"rank correlation of the methods (Spearman; number of methods): {ranks}"] if ranks else []
    largest = []
    for key, cell in [] if table.order_only else gaps(table)[:_LARGEST]:
        digits = table.column(key[2]).value.digits
        place = " / ".join(filter(None, key))
        largest.append(f"{place} {signed(cell.difference or 0, digits)} "
                       f"({cell.mean:.{digits}f}, published {_reference(cell):.{digits}f})")  # fmt: skip
    return lines + ([f"largest gaps: {'; '.join(largest)}"] if largest else [])


def inside(cells: Iterable[Cell]) -> str:
    """How many cells are inside, and in brackets by which of PARTS: ``160 (124 + 28 + 8)``; ``0`` for none."""
    counts = Counter(cell.inside_by for cell in cells)
    parts = [counts[part] for part in PARTS]
    return f"{sum(parts)} ({' + '.join(map(str, parts))})" if any(parts) else "0"


def _inside(judged: Mapping[Key, Cell]) -> str:
    """The same of a table in words."""
    counts = Counter(cell.inside_by for cell in judged.values())
    parts = ", ".join(f"{counts[part]} {part}" for part in PARTS if counts[part])
    total = sum(counts[part] for part in PARTS)
    return f"{total} of {len(judged)} cells are inside{f' ({parts})' if parts else ''}"


def mean_ranks(table: Table) -> list[str]:
    """A line for each value of the table with at least five columns: mean ranks of the rows that have them all, without
    stand-ins."""
    lines = []
    for value in dict.fromkeys(column.value.name for column in table.columns if column.value.better):
        columns = [column for column in table.columns if column.value.name == value and not column.worst]
        for block in table.blocks:
            numbers = {row: [cell.mean for cell in cells] for row in table.rows
                       if (cells := _full(table, block, row, columns))}  # fmt: skip
            if len(columns) < _CONDITIONS or len(numbers) < _FEWEST:
                continue
            ranked = ranks(numbers, columns[0].value.better)
            order = sorted(ranked.mean.items(), key=lambda item: item[1])
            what = " ".join(filter(None, (f"mean rank by {value}", block and f"in {block}")))
            lines.append(
                f"{what} over {ranked.conditions} columns: {', '.join(f'{row} {mean:.1f}' for row, mean in order)}; "
                f"methods within {ranked.critical:.1f} cannot be told apart (Nemenyi, 95%; Friedman p = {ranked.p:.2g})"
            )
    return lines


def _full(table: Table, block: str, row: str, columns: Sequence[Column]) -> list[Cell]:
    """The cells of a row; empty if one has no number."""
    cells = [table.cells.get((block, row, column.label)) for column in columns]
    measured = [cell for cell in cells if cell and cell.seeds and not cell.stand_in and math.isfinite(cell.mean)]
    return measured if len(measured) == len(cells) else []


def signed(difference: float, digits: int) -> str:
    """A difference with its sign; +0.0 for one that is printed as zero."""
    written = f"{difference:+.{digits}f}"
    return written.replace("-", "+") if float(written) == 0 else written


def _reference(cell: Cell) -> float:
    return cell.against.reference if cell.against else math.nan
