"""A table of a paper, filled with measured runs: each measured number beside the published one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import compose
from robustfl_bench.config.compose import Resolved
from robustfl_bench.engine.settings import CHOICES
from robustfl_bench.runs import commands, matching
from robustfl_bench.runs.matching import Config, Index
from robustfl_bench.runs.origins import origins
from robustfl_bench.runs.records import ENDED, leaf, nothing, text
from robustfl_bench.runs.values import OF_ROUNDS, Measured, Value, describe, evaluated, measure, of_other_rounds
from robustfl_bench.runs.where import natural, require_comparable, where
from robustfl_bench.tables.agreement import points
from robustfl_bench.tables.sheets import Todo
from robustfl_bench.tables.table import (
    INFEASIBLE,
    NOT_YET,
    POINTS,
    Against,
    Cell,
    Column,
    RunFacts,
    Table,
    add_note,
    facts,
    make_cell,
    references,
    stopped,
)

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.tables.described import PaperCell, PaperTable

_CONTEXT = ("dataset", "model", "partition", "rounds", "lr", "batch_size", "num_clients", "num_byzantine_declared")
_NEAR = 3  # a run that differs from a cell in no more settings is a near miss
_UNLIKE = 3  # kinds of near misses that are listed
_Overrides = tuple[str, ...]


def compare(
    table: PaperTable,
    runs: pd.DataFrame,
    conditions: Sequence[str] = (),
    overrides: Sequence[str] = (),
    results_dir: str = "results",
    index: Index | None = None,
    cells_only: bool = False,
) -> Table:
    """The paper's table, filled with the ``runs`` (``records.load``) that have its settings and meet the conditions.

    ``overrides`` change every cell: ``["scale=quick"]``. ``results_dir`` is the folder for missing runs. ``index`` is
    that of ``runs``, for a caller that makes several tables; ``cells_only`` leaves out remarks and what is to do.
    Raises ConfigError for runs that would be mixed although they differ and for overrides that no cell can have, NoRuns
    for conditions that no run meets.
    """
    chosen = where(runs, conditions) if conditions else runs
    index = Index(chosen) if index is None or conditions else index
    resolved, impossible = _resolve(table, overrides)
    if overrides and impossible and not resolved:
        raise next(iter(impossible.values()))
    if conditions:
        table = _part(table, resolved, conditions)
        resolved = {cell.overrides: resolved[cell.overrides] for cell in table.cells if cell.overrides in resolved}
    wanted = {key: matching.config(run.identity) for key, run in resolved.items()}
    places = {key: index.at(run) for key, run in wanted.items()}
    matched = sorted({place for run_places in places.values() for place in run_places})
    everyone = chosen.iloc[matched]
    rows = dict(zip(matched, facts(everyone), strict=True))
    _require_one_frequency(table, chosen, places)
    result = _empty(table, chosen)
    finished = everyone[everyone["state"] == "finished"]
    measured = {name: measure(value, finished, runs) for name, value in _values(result).items()}
    seeds = sorted(set(everyone["seed"].map(text)), key=natural)
    for cell in table.cells:
        if cell.overrides is not None:
            value = result.column(cell.column.label).value
            cell_runs = [rows[place] for place in places.get(cell.overrides, [])]
            measured_cell = _measured(result, cell, cell_runs, seeds, measured[value.name], impossible)
            result.cells[_key(cell)] = replace(
                measured_cell, against=_against(cell, value, table.seeds), key=_printed_key(cell)
            )
    for column in result.columns:
        if column.worst:
            result.add_worst(column)
            for cell in table.cells:
                if cell.column.label == column.label:
                    result.cells[_key(cell)] = _worst(result, cell, table.seeds)
    result.cells = {_key(cell): result.cells[_key(cell)] for cell in table.cells}
    if cells_only:
        return result
    result.remarks = _remarks(table, list(resolved.values()), conditions, overrides)
    result.remarks += evaluated(_values(result), everyone)
    result.remarks += origins(everyone)
    result.remarks += _left_out(table, chosen, index, wanted, overrides)
    result.todos += _todos(table, result, rows, places, seeds, overrides, results_dir)
    for name, value in _values(result).items():
        result.todos += references(value, measured[name])
    return result


def showing(table: PaperTable, name: str) -> PaperTable:
    """The table with the measured value ``name`` in place of that of other rounds: ``last_accuracy``, which jumps less.

    Raises ConfigError for a table without accuracies or errors.
    """
    shown = {column.metric: table.value(column.metric) for column in table.columns}
    values = of_other_rounds(shown, name)
    printed = "; ".join(describe(value, nothing()).title for metric, value in shown.items() if value != values[metric])
    return replace(table, values=values, repeats=", ".join(filter(None, (table.repeats, printed))))


def _resolve(
    table: PaperTable, overrides: Sequence[str]
) -> tuple[dict[_Overrides, Resolved], dict[_Overrides, ConfigError]]:
    """The config of every cell by its overrides; where this version lacks an option, the error that says so."""
    resolved, impossible = {}, {}
    for cell in table.cells:
        if cell.overrides is not None and cell.overrides not in resolved:
            try:
                resolved[cell.overrides] = compose.resolve((*cell.overrides, *overrides))
            except ConfigError as error:
                impossible[cell.overrides] = error
    return resolved, impossible


def _part(table: PaperTable, resolved: Mapping[_Overrides, Resolved], conditions: Sequence[str]) -> PaperTable:
    """The rows, columns and blocks with a cell whose settings meet the conditions that are about settings of cells.

    Raises NoRuns when there is none.
    """
    import pandas as pd

    held = pd.DataFrame([{**matching.config(run.identity), **run.choices} for run in resolved.values()])
    about = [condition for condition in conditions if condition.partition("=")[0] in held]
    left = where(held, about).index
    kept = {overrides for place, overrides in enumerate(resolved) if place in left}
    cells = [cell for cell in table.cells if cell.overrides in kept]
    blocks, rows, columns = ({_key(cell)[place] for cell in cells} for place in range(3))
    return replace(
        table,
        blocks=tuple(block for block in table.blocks if block.label in blocks),
        rows=tuple(row for row in table.rows if row.label in rows),
        columns=tuple(column for column in table.columns if column.label in columns or column.worst),
    )


def _key(cell: PaperCell) -> tuple[str, str, str]:
    return cell.block, cell.row, cell.column.label


def _name(cell: PaperCell) -> str:
    return " / ".join(filter(None, _key(cell)))


def _printed_key(cell: PaperCell) -> Mapping[str, str]:
    """What names the cell in CSV: the key columns of the paper's CSV, or the labels where nothing is published."""
    if cell.published is not None:
        return cell.published.key
    return {"block": cell.block, "row": cell.row, "column": cell.column.label}


def _empty(table: PaperTable, runs: pd.DataFrame) -> Table:
    """The table without cells. A column has as many decimals as the paper prints in it."""
    digits: Counter[str] = Counter()
    for cell in table.cells:
        if cell.published is not None:
            digits[cell.column.label] = max(digits[cell.column.label], cell.published.digits)
    columns = []
    for column in table.columns:
        value = describe(table.value(column.metric), runs)
        value = replace(value, digits=digits.get(column.label, value.digits))
        attacked = not column.worst and column.published.get("attack") != "none"
        columns.append(Column(column.label, value, column.worst, attacked))
    units = {column.value.heading for column in columns}
    compared = table.numbers is not None
    notation = ["measured, mean (sample sd) [n=seeds]", *(["and published", table.repeats] if compared else [])]
    return Table(
        title=table.title,
        corner=f"aggregator {units.pop()}".strip() if len(units) == 1 else "aggregator",
        blocks=tuple(block.label for block in table.blocks),
        rows=tuple(row.label for row in table.rows),
        columns=tuple(columns),
        compared=compared,
        stand_in=table.stand_in,
        shows_seeds=True,
        notation=", ".join(filter(None, notation)),
    )


def _values(table: Table) -> dict[str, Value]:
    return {column.value.name: column.value for column in table.columns}


def _require_one_frequency(table: PaperTable, runs: pd.DataFrame, places: Mapping[_Overrides, list[int]]) -> None:
    """Where more than the last evaluated round counts, raise ConfigError for runs evaluated more and less often."""
    if all(table.value(column.metric) not in OF_ROUNDS for column in table.columns):
        return
    rows = [(f"{cell.block} / {cell.row}", cell.column.label, place) for cell in table.cells
            if cell.overrides is not None for place in places.get(cell.overrides, [])]  # fmt: skip
    matched = runs.iloc[[place for *_, place in rows]][["state", "seed", "eval_every"]]
    matched = matched.assign(row=[row for row, *_ in rows], column=[column for _, column, _ in rows])
    ended = matched[matched["state"].isin(ENDED)]
    if len(ended):
        require_comparable(ended, ("row", "column"))


def _measured(
    result: Table, cell: PaperCell, cell_runs: Sequence[RunFacts], seeds: Sequence[str], measured: dict[str, Measured],
    impossible: Mapping[_Overrides, ConfigError],
) -> Cell:  # fmt: skip
    """The cell of these runs, or a cell with the reason why no run can exist."""
    if error := impossible.get(cell.overrides or ()):
        return Cell(state=NOT_YET, note=add_note(result.notes, f"not in this version: {error}"))
    if not cell_runs:
        return Cell(state="missing")
    return make_cell(_name(cell), result.notes, cell_runs, seeds, measured)


def _against(cell: PaperCell, value: Value, seeds: int) -> Against | None:
    if cell.published is None:
        return None
    number = cell.published.number
    return Against(cell.published.text, number, number, POINTS * points(value), cell.published.spread, seeds)


def _worst(result: Table, cell: PaperCell, seeds: int) -> Cell:
    """A worst case with what it is compared with: the worst of the published numbers under attack, printed or not."""
    value = result.column(cell.column.label).value
    worst, against = result.cells[_key(cell)], _against(cell, value, seeds)
    if cell.published is None or against is None:
        return replace(worst, key=_printed_key(cell))
    attacks = [column.label for column in result.columns if column.attacked and column.value.name == value.name]
    rivals = {label: other.against for label in attacks
              if (other := result.cells.get((cell.block, cell.row, label))) and other.against}  # fmt: skip
    label, least = min(rivals.items(), key=lambda item: value.better * item[1].reference)
    if least.reference != against.reference:
        note = add_note(
            result.notes,
            f"{_name(cell)} is printed as {cell.published.mean}; compared is the worst of its printed numbers under "
            f"attack, {least.reference:.{value.digits}f} ({label})",
        )
        against = replace(against, reference=least.reference, note=note)
    against = replace(against, sd=least.sd)
    return replace(worst, against=against, key=_printed_key(cell))


def _remarks(
    table: PaperTable, resolved: Sequence[Resolved], conditions: Sequence[str], overrides: Sequence[str]
) -> list[str]:
    """The settings that the runs share."""
    shared = []
    for name in _CONTEXT:
        run_values = {text(leaf(run.choices.get(name, run.config.get(name)))) for run in resolved}
        shared += [f"{name}={run_values.pop()}"] if len(run_values) == 1 else []
    setting = f"setting: {' '.join((*table.base, *table.changes)) or 'that of each block'} ({', '.join(shared)})"
    remarks = []
    if overrides:
        changed, precision = " ".join(overrides), all(name.startswith("precision=") for name in overrides)
        what = "the paper's experiment in other arithmetic" if precision else "not the paper's experiment"
        remarks = [f"WITH {changed}: {what}; the published numbers are those of the paper's own"]
    return [*remarks, setting, *([f"where {', '.join(conditions)}"] if conditions else [])]


def _left_out(
    table: PaperTable, runs: pd.DataFrame, index: Index, wanted: Mapping[_Overrides, Config], overrides: Sequence[str]
) -> list[str]:
    """Runs of another scale that the table at that scale shows, and near misses: runs that differ from those of a cell
    in few settings."""
    shown = {place for config in wanted.values() for place in index.at(config)}
    scales, lines, at_scales = list(runs["scale"]), [], set[int]()
    for scale in CHOICES["scale"]:
        resolved, _ = _resolve(table, (*overrides, f"scale={scale}"))
        places = {place for run in resolved.values() for place in index.at(matching.config(run.identity))} - shown
        at_scales |= places
        if count := sum(scales[place] == scale for place in places):
            lines.append(f"not shown: {_runs(count)} made at scale={scale}; with scale={scale} the table shows them")
    near = Counter(", ".join(unlike) for place, unlike in index.alike(list(wanted.values()))
                   if place not in at_scales and len(unlike) <= _NEAR)  # fmt: skip
    return lines + [f"not shown: {_runs(count)} with {unlike}" for unlike, count in near.most_common(_UNLIKE)]


def _runs(count: int) -> str:
    return f"{count} run{'s' if count > 1 else ''}"


def _todos(
    table: PaperTable, result: Table, rows: Mapping[int, RunFacts], places: Mapping[_Overrides, list[int]],
    seeds: Sequence[str], overrides: Sequence[str], results_dir: str,
) -> list[Todo]:  # fmt: skip
    """Failed and unfinished runs, and the command for all that is missing: the preset's, else one for each cell."""
    names: dict[_Overrides, str] = {}
    for cell in table.cells:
        if cell.overrides is not None:
            names.setdefault(cell.overrides, _name(cell))
    held = {key: [rows[place] for place in places.get(key, [])] for key in names}
    todos = [todo for key, name in names.items() for todo in stopped(name, held[key])]
    own = {_key(cell): cell.overrides for cell in table.cells if cell.overrides is not None}
    lacking = {key: result.cells[key] for key in own if result.cells[key].state not in (INFEASIBLE, NOT_YET)}
    empty = [key for key, cell in lacking.items() if not cell.seeds]
    fewer = [key for key, cell in lacking.items() if cell.seeds and cell.partial]
    if not empty and not fewer:
        return todos
    counts = [f"{len(empty)} of {len(own)} cells have no number"] * bool(empty)
    counts += [f"{len(fewer)} {'has' if len(fewer) == 1 else 'have'} fewer seeds than others"] * bool(fewer)
    what = ", ".join(counts)
    if table.preset:
        command = commands.preset(table.preset, (*table.changes, *overrides), results_dir)
        return [*todos, Todo("missing", f"{what}; this runs all that the results folder lacks", command)]
    todos.append(Todo("missing", what))
    for key in dict.fromkeys(own[key] for key in (*empty, *fewer)):
        present = {run["seed"] for run in held[key]}
        absent = [seed for seed in seeds if seed not in present]
        todos.append(Todo("missing", names[key], commands.run((*key, *overrides), absent, results_dir)))
    return todos
