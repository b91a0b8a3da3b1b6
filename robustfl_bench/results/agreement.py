"""How well measured and published numbers of a table agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from robustfl_bench.results.table import POINTS, SPREADS, Cell, Key, Table
from robustfl_bench.results.values import Value

_FEWEST = 3  # rows that a rank correlation needs
_LARGEST = 5  # gaps that are listed


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation between measured and published numbers of the rows in one column of a block."""

    block: str
    column: str
    rows: int
    rho: float


def points(value: Value) -> float:
    """One percentage point, in the unit of the value; of what follows from a formula, half of the last decimal."""
    return {"fraction": 0.01, "Mbit": 0.00025}.get(value.unit, 1)


def correlations(table: Table) -> list[Correlation]:
    """For each column of each block with enough rows measured; nan where all rows are equal."""
    found = []
    for block in table.blocks:
        for column in (column.label for column in table.columns):
            here = [cell for (other, _, label), cell in table.judged.items() if (other, label) == (block, column)]
            if len(here) >= _FEWEST:
                rho = _spearman([cell.mean for cell in here], [_reference(cell) for cell in here])
                found.append(Correlation(block, column, len(here), rho))
    return found


def gaps(table: Table) -> list[tuple[Key, Cell]]:
    """The cells that differ from their published number, largest difference first, all counted in percentage points."""
    unlike = [(key, cell) for key, cell in table.judged.items() if cell.difference]
    return sorted(unlike, key=lambda item: -abs(item[1].difference or 0) / points(table.column(item[0][2]).value))


def tolerance(table: Table) -> str:
    """How far a measured number may be from the published one, in words."""
    unit = min(points(column.value) for column in table.columns)
    amount = f"{POINTS} points" if unit == 1 else f"{POINTS * unit:g}"
    spread = any(cell.against and cell.against.has_sd for cell in table.cells.values())
    return f"the larger of {amount} and {SPREADS} published sd" if spread else amount


def report(table: Table) -> list[str]:
    """How well the two agree, in a few lines; of a stand-in only the order of its rows."""
    judged, total = table.judged, len(table.cells)
    inside = sum(bool(cell.inside) for cell in judged.values())
    states = sorted(table.lacking.items(), key=lambda item: (-item[1], item[0]))
    lacking = ", ".join(f"{count} {state}" for state, count in states)
    compared = f"{len(judged)} of {total} cells are compared{f' ({lacking})' if lacking else ''}"
    within = f"{inside} of {len(judged)} compared cells are within {tolerance(table)}"
    lines = [f"agreement: {compared if table.stand_in else f'{within}; {compared}'}"]
    ranks = []
    for found in correlations(table):
        rho = "-" if math.isnan(found.rho) else f"{found.rho:.2f}"
        ranks.append(f"{' '.join(filter(None, (found.block, found.column)))} {rho} ({found.rows})")
    lines += [f"rank correlation of the methods (Spearman; number of methods): {', '.join(ranks)}"] if ranks else []
    largest = []
    for key, cell in [] if table.stand_in else gaps(table)[:_LARGEST]:
        digits = table.column(key[2]).value.digits
        place = " / ".join(filter(None, key))
        largest.append(f"{place} {signed(cell.difference or 0, digits)} "
                       f"({cell.mean:.{digits}f}, published {_reference(cell):.{digits}f})")  # fmt: skip
    return lines + ([f"largest gaps: {'; '.join(largest)}"] if largest else [])


def signed(difference: float, digits: int) -> str:
    """A difference with its sign; +0.0 for one that is printed as zero."""
    written = f"{difference:+.{digits}f}"
    return written.replace("-", "+") if float(written) == 0 else written


def _reference(cell: Cell) -> float:
    return cell.against.reference if cell.against else math.nan


def _spearman(measured: Sequence[float], published: Sequence[float]) -> float:
    if len(set(measured)) == 1 or len(set(published)) == 1:
        return math.nan
    from scipy.stats import spearmanr

    return float(spearmanr(measured, published).statistic)
