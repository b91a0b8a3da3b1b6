"""A comparison with a paper as text, Markdown, LaTeX (booktabs), CSV and HTML."""

from __future__ import annotations

import csv
import io
import math

from robustfl_bench.results import sheets
from robustfl_bench.results.comparison import LARGEST, POINTS, SPREADS, Compared, Comparison, points
from robustfl_bench.results.sheets import Printed, Sheet

_COLUMNS = ("paper", "table", "scale", "dataset", "model", "partition", "setting", "attack", "attack_fraction",
            "aggregator", "metric", "unit", "mean", "sd", "seeds", "published_mean", "published_sd", "printed_mean",
            "difference", "tolerance", "inside", "state", "reason")  # fmt: skip


def render(comparison: Comparison, form: str) -> str:
    """The comparison in one of ``formats.FORMATS``."""
    return _csv(comparison) if form == "csv" else sheets.FORMATS[form]([_sheet(comparison)])


def _sheet(comparison: Comparison) -> Sheet:
    table = comparison.table
    units = {value.unit for value in comparison.values.values()}
    heading = [_with_unit("aggregator", units.pop()) if len(units) == 1 else "aggregator", ""]
    for column in table.columns:
        heading.append(_with_unit(column.label, comparison.values[column.label].unit) if units else column.label)
    rows = []
    for block in table.blocks:
        rows += [[Printed(block.label), *[Printed("")] * (len(heading) - 1)]] if block.label else []
        for method in table.methods:
            rows += _lines(comparison, block.label, method)
    return Sheet(
        above=[f"{table.title}: measured, mean (sample sd) [n=seeds], and published, {table.repeats}",
               _measures(comparison), *comparison.remarks],
        heading=heading,
        rows=rows,
        labels=2,
        footnotes=_footnotes(comparison),
        report=agreement(comparison),
        todos=comparison.todos,
    )  # fmt: skip


def _with_unit(label: str, unit: str) -> str:
    return f"{label} [{unit}]" if unit else label


def _measures(comparison: Comparison) -> str:
    """What the numbers are."""
    titles = dict.fromkeys(value.title for value in comparison.values.values())
    worst = [f"{column.label}: the least of the attacks" for column in comparison.table.columns if column.worst]
    return "; ".join([*titles, *worst])


def _lines(comparison: Comparison, block: str, method: str) -> list[list[Printed]]:
    """The measured numbers of a method, the published ones, and where there is one the difference."""
    measured, published, difference = [Printed(method), Printed("measured")], [Printed(""), Printed("published")], []
    for column in comparison.table.columns:
        cell = comparison.cells.get((block, method, column.label))
        if cell is None:  # the paper prints a dash
            line = [Printed("-")] * 3
        else:
            digits = comparison.values[column.label].digits
            line = [
                Printed(_number(cell, digits), _is_best(comparison, cell, measured=True), cell.measured.note),
                Printed(cell.cell.published.text, _is_best(comparison, cell, measured=False), cell.note),
                Printed(_apart(cell, digits)),
            ]
        measured.append(line[0])
        published.append(line[1])
        difference.append(line[2])
    lines = [measured, published]
    if not comparison.table.stand_in and any(cell.text not in ("", "-") for cell in difference):
        lines.append([Printed(""), Printed("difference"), *difference])
    return lines


def _number(cell: Compared, digits: int) -> str:
    seeds = f" [n={cell.measured.seeds}]" if cell.measured.seeds and not cell.cell.column.worst else ""
    incomplete = "*" if cell.measured.seeds and cell.difference is None else ""
    return cell.measured.text(digits) + incomplete + seeds


def _apart(cell: Compared, digits: int) -> str:
    if cell.difference is None:
        return ""
    return f"{_signed(cell.difference, digits)} {'in' if cell.inside else 'OUT'}"


def _signed(difference: float, digits: int) -> str:
    written = f"{difference:+.{digits}f}"
    return written.replace("-", "+") if float(written) == 0 else written


def _is_best(comparison: Comparison, cell: Compared, measured: bool) -> bool:
    """Whether it prints the best number of its column in its block; cells that are not complete do not take part."""
    value = comparison.values[cell.cell.column.label]
    rivals = [other for (block, _, column), other in comparison.cells.items()
              if (block, column) == (cell.cell.block, cell.cell.column.label)]  # fmt: skip
    if not measured:
        top = max(rivals, key=lambda other: value.better * other.cell.published.number)
        return cell.cell.published.number == top.cell.published.number
    numbers = [other.measured.mean for other in rivals
               if other.difference is not None and math.isfinite(other.measured.mean)]  # fmt: skip
    if cell.difference is None or not numbers:
        return False
    best = max(numbers, key=lambda number: value.better * number)
    return f"{cell.measured.mean:.{value.digits}f}" == f"{best:.{value.digits}f}"


def _footnotes(comparison: Comparison) -> list[str]:
    notes = [f"[{number}] {reason}" for number, reason in enumerate(comparison.notes, 1)]
    if any(cell.measured.seeds and cell.difference is None for cell in comparison.cells.values()):
        notes.append("* some attacks are not measured: not compared")
    if comparison.table.stand_in:
        return [*notes, "measured on other data than published: compare the order of the methods, not the numbers"]
    return [*notes, f"in / OUT: within {_tolerance(comparison)} of the published number, or not"]


def _tolerance(comparison: Comparison) -> str:
    """The tolerance in words."""
    unit = min(points(value) for value in comparison.values.values())
    amount = f"{POINTS} points" if unit == 1 else f"{POINTS * unit:g}"
    spread = any(cell.cell.published.sd for cell in comparison.cells.values())
    return f"the larger of {amount} and {SPREADS} published sd" if spread else amount


def agreement(comparison: Comparison) -> list[str]:
    """How well measured and published numbers agree, in a few lines."""
    judged, total = comparison.judged, len(comparison.cells)
    inside = sum(bool(cell.inside) for cell in judged)
    states = sorted(comparison.lacking.items(), key=lambda item: (-item[1], item[0]))
    lacking = ", ".join(f"{count} {state}" for state, count in states)
    compared = f"{len(judged)} of {total} cells are compared{f' ({lacking})' if lacking else ''}"
    within = f"{inside} of {len(judged)} compared cells are within {_tolerance(comparison)}"
    lines = [f"agreement: {compared if comparison.table.stand_in else f'{within}; {compared}'}"]
    ranks = []
    for found in comparison.correlations():
        rho = "-" if math.isnan(found.rho) else f"{found.rho:.2f}"
        ranks.append(f"{' '.join(filter(None, (found.block, found.column)))} {rho} ({found.methods})")
    lines += [f"rank correlation of the methods (Spearman; number of methods): {', '.join(ranks)}"] if ranks else []
    gaps = []
    for cell in [] if comparison.table.stand_in else comparison.gaps[:LARGEST]:
        digits = comparison.values[cell.cell.column.label].digits
        place = " / ".join(filter(None, (*cell.cell.row, cell.cell.column.label)))
        gaps.append(f"{place} {_signed(cell.difference or 0, digits)} "
                    f"({cell.measured.mean:.{digits}f}, published {cell.reference:.{digits}f})")  # fmt: skip
    return lines + ([f"largest gaps: {'; '.join(gaps)}"] if gaps else [])


def _csv(comparison: Comparison) -> str:
    """One line per cell. ``published_mean`` is what is compared; a worst case may be printed as another number."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for cell in comparison.cells.values():
        seeds, published = cell.measured.seeds, cell.cell.published
        worst = cell.cell.column.worst
        state = cell.measured.state or ("incomplete" if cell.difference is None else "complete")
        row = {name: published.key[name] for name in _COLUMNS if name in published.key} | {
            "scale": comparison.scale,
            "unit": comparison.values[cell.cell.column.label].unit,
            "mean": cell.measured.mean if seeds else "",
            "sd": cell.measured.sd if seeds > 1 else "",
            "seeds": "" if worst else seeds,
            "published_mean": cell.reference,
            "published_sd": published.sd,
            "printed_mean": published.mean,
            "difference": "" if cell.difference is None else cell.difference,
            "tolerance": cell.tolerance,
            "inside": "" if cell.inside is None else str(cell.inside).lower(),
            "state": state,
            "reason": "; ".join(comparison.notes[note - 1] for note in (cell.measured.note, cell.note) if note),
        }
        writer.writerow(row)
    return out.getvalue()
