"""A table of a paper, filled with measured runs: each measured number beside the published one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.base.console import counted
from robustfl_bench.read.runs import commands, matching
from robustfl_bench.read.runs.matching import Index
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.read.runs.records import leaf, nothing, text
from robustfl_bench.read.runs.values import describe, evaluated, of_other_rounds
from robustfl_bench.read.runs.where import where
from robustfl_bench.read.tables.filling import Filling, Overrides, key_of, name_of, resolve
from robustfl_bench.read.tables.sheets import Todo
from robustfl_bench.read.tables.stand_ins import filled
from robustfl_bench.read.tables.table import INFEASIBLE, NOT_YET, Table, references, stopped
from robustfl_bench.runner.config.compose import Resolved
from robustfl_bench.train.settings import CHOICES

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.read.tables.described import PaperTable

_CONTEXT = ("dataset", "model", "partition", "rounds", "lr", "batch_size", "num_clients", "num_byzantine_declared")
_NEAR = 3  # a run that differs from a cell in no more settings is a near miss
_UNLIKE = 3  # kinds of near misses that are listed


def compare(
    table: PaperTable,
    runs: pd.DataFrame,
    conditions: Sequence[str] = (),
    overrides: Sequence[str] = (),
    results_dir: str = "results",
    index: Index | None = None,
) -> Table:
    """The paper's table, filled with the ``runs`` (``records.load``) that have its settings and meet the conditions;
    cells that these leave empty are filled with the table's stand-ins.

    ``overrides`` change every cell: ``["scale=quick"]``; such a table has no stand-ins. ``results_dir`` is the folder
    for missing runs. ``index`` is that of ``runs``, for a caller that makes several tables. Raises ConfigError for runs
    that would be mixed although they differ and for overrides that no cell can have, NoRuns for conditions that no run
    meets.
    """
    chosen = where(runs, conditions) if conditions else runs
    index = Index(chosen) if index is None or conditions else index
    if conditions:
        table = _part(table, resolve(table, overrides)[0], conditions)
    own = filled(table, chosen, runs, index, tuple(overrides))
    result = own.table
    result.remarks = _remarks(own, conditions)
    result.remarks += evaluated(own.values, own.runs)
    result.remarks += origins(own.runs)
    result.remarks += [f"stand-ins: {line}" for line in origins(chosen.iloc[sorted(own.standing_in)])]
    result.remarks += _left_out(own)
    result.todos += _todos(own, results_dir)
    for name, value in own.values.items():
        result.todos += references(value, own.measured[name])
    return result


def showing(table: PaperTable, name: str) -> PaperTable:
    """The table with the measured value ``name`` in place of that of other rounds: ``last_accuracy``, which jumps less.

    Raises ConfigError for a table without accuracies or errors.
    """
    shown = {column.metric: table.value(column.metric) for column in table.columns}
    values = of_other_rounds(shown, name)
    printed = "; ".join(describe(value, nothing()).title for metric, value in shown.items() if value != values[metric])
    return replace(table, values=values, repeats=", ".join(filter(None, (table.repeats, printed))))


def _part(table: PaperTable, resolved: Mapping[Overrides, Resolved], conditions: Sequence[str]) -> PaperTable:
    """The rows, columns and blocks with a cell whose settings meet the conditions that are about settings of cells.

    Raises NoRuns when there is none.
    """
    import pandas as pd

    held = pd.DataFrame([{**matching.config(run.identity), **run.choices} for run in resolved.values()])
    about = [condition for condition in conditions if condition.partition("=")[0] in held]
    left = where(held, about).index
    kept = {overrides for place, overrides in enumerate(resolved) if place in left}
    cells = [cell for cell in table.cells if cell.overrides in kept]
    blocks, rows, columns = ({key_of(cell)[place] for cell in cells} for place in range(3))
    return replace(
        table,
        blocks=tuple(block for block in table.blocks if block.label in blocks),
        rows=tuple(row for row in table.rows if row.label in rows),
        columns=tuple(column for column in table.columns if column.label in columns or column.worst),
    )


def _remarks(own: Filling, conditions: Sequence[str]) -> list[str]:
    """The settings that the runs share."""
    shared, table, overrides = [], own.described, own.overrides
    for name in _CONTEXT:
        run_values = {text(leaf(run.choices.get(name, run.config.get(name)))) for run in own.resolved.values()}
        shared += [f"{name}={run_values.pop()}"] if len(run_values) == 1 else []
    setting = f"setting: {' '.join((*table.base, *table.changes)) or 'that of each block'} ({', '.join(shared)})"
    remarks = []
    if overrides:
        changed, precision = " ".join(overrides), all(name.startswith("precision=") for name in overrides)
        what = "the paper's experiment in other arithmetic" if precision else "not the paper's experiment"
        remarks = [f"WITH {changed}: {what}; the published numbers are those of the paper's own"]
    return [*remarks, setting, *([f"where {', '.join(conditions)}"] if conditions else [])]


def _left_out(own: Filling) -> list[str]:
    """Runs of another scale that the table at that scale shows, and near misses: runs that differ from those of a cell
    in few settings."""
    shown = {place for places in own.places.values() for place in places} | own.standing_in
    scales, lines, at_scales = list(own.everything["scale"]), [], set[int]()
    for scale in CHOICES["scale"]:
        resolved, _ = resolve(own.described, (*own.overrides, f"scale={scale}"))
        places = {place for run in resolved.values() for place in own.index.at(matching.config(run.identity))} - shown
        at_scales |= places
        if count := sum(scales[place] == scale for place in places):
            made = f"{counted(count, 'run')} made at scale={scale}"
            lines.append(f"not shown: {made}; with scale={scale} the table shows them")
    near = Counter(", ".join(unlike) for place, unlike in own.index.alike(list(own.wanted.values()))
                   if place not in at_scales | shown and len(unlike) <= _NEAR)  # fmt: skip
    return lines + [f"not shown: {counted(count, 'run')} with {unlike}" for unlike, count in near.most_common(_UNLIKE)]


def _todos(own: Filling, results_dir: str) -> list[Todo]:
    """Failed and unfinished runs, and the command for all that is missing: the preset's, else one for each cell."""
    table = own.described
    names: dict[Overrides, str] = {}
    for cell in table.cells:
        if cell.overrides is not None:
            names.setdefault(cell.overrides, name_of(cell))
    held = {key: own.runs_at(key) for key in names}
    todos = [todo for key, name in names.items() for todo in stopped(name, held[key])]
    overrides = {key_of(cell): cell.overrides for cell in table.cells if cell.overrides is not None}
    lacking = {
        key: own.table.cells[key] for key in overrides if own.table.cells[key].state not in (INFEASIBLE, NOT_YET)
    }
    empty = [key for key, cell in lacking.items() if not cell.seeds or cell.stand_in]
    fewer = [key for key, cell in lacking.items() if cell.seeds and cell.partial and not cell.stand_in]
    if not empty and not fewer:
        return todos
    counts = [f"{len(empty)} of {len(overrides)} cells have no number{_but_stand_ins(own.table)}"] * bool(empty)
    counts += [f"{len(fewer)} {'has' if len(fewer) == 1 else 'have'} fewer seeds than others"] * bool(fewer)
    what = ", ".join(counts)
    if table.preset:
        command = commands.preset(table.preset, (*table.changes, *own.overrides), results_dir)
        return [*todos, Todo("missing", f"{what}; this runs all that the results folder lacks", command)]
    todos.append(Todo("missing", what))
    for key in dict.fromkeys(overrides[key] for key in (*empty, *fewer)):
        present = {run["seed"] for run in held[key]}
        absent = [seed for seed in own.seeds if seed not in present]
        todos.append(Todo("missing", names[key], commands.run((*key, *own.overrides), absent, results_dir)))
    return todos


def _but_stand_ins(table: Table) -> str:
    return " of the paper's own settings" if table.stood_in else ""
