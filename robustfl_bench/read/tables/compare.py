"""A table of a paper, filled with measured runs: each measured number beside the published one. With stand-ins: cells
that are measured with other settings than the paper's, where those have no result.

A table lists its stand-ins as overrides, ``batch_size=64`` or ``scale=quick``, the most trusted first. A cell takes the
number of the first that has one, and says so; it is never counted with the cells of the paper's own settings. A cell
whose models have not learned at these settings (``values.has_learned``) stands in for none, and so does a cell of a
table of other data.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.base.console import counted
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs import commands, matching
from robustfl_bench.read.runs.matching import Config, Index
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.read.runs.records import leaf, nothing, text
from robustfl_bench.read.runs.values import (
    TOO_SMALL,
    describe,
    evaluated,
    has_learned,
    measurable,
    measure,
    of_other_rounds,
)
from robustfl_bench.read.runs.where import where
from robustfl_bench.read.tables.claims import Key
from robustfl_bench.read.tables.filling import Filling, Overrides, key_of, name_of, resolve
from robustfl_bench.read.tables.sheets import Todo
from robustfl_bench.read.tables.table import INFEASIBLE, NOT_YET, SMALL, Cell, Table, add_note, references, stopped
from robustfl_bench.runner.config import identity
from robustfl_bench.runner.config.compose import Resolved
from robustfl_bench.runner.config.names import readable
from robustfl_bench.train.settings import CHOICES

if TYPE_CHECKING:
    from robustfl_bench.read.tables.described import PaperCell, PaperTable, Published


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
    settings = " of the paper's own settings" * bool(own.table.stood_in)
    counts = [f"{len(empty)} of {len(overrides)} cells have no number{settings}"] * bool(empty)
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


_WHOLE = {"batch_size": "whole local sets"}
"""What the absence of a setting means."""
_SETTING = ("dataset", "model", "partition", "setting")
"""The key columns of the CSV that name a setting."""
_FOLLOWING = ("num_byzantine", "num_byzantine_declared")
"""Options of rules and attacks that follow the setting of the same name."""


def filled(
    table: PaperTable, everything: pd.DataFrame, references: pd.DataFrame, index: Index, overrides: Overrides = ()
) -> Filling:
    """A table filled with runs, stand-ins included; one that is changed by ``overrides`` has none. See ``Filling``."""
    own = Filling(table, overrides, everything, references, index)
    if table.other_data:
        _leave_out(own)
    if not overrides:
        _put_in(own)
    return own


class _Learning:
    """Whether the cells of a table with other settings than the paper's have learned: by the table's own cell of the
    plain mean without attack in the same setting, or by Average without attack and all else equal."""

    def __init__(self, filling: Filling) -> None:
        self._filling = filling
        self._runs = measurable(filling.everything)
        self._value = describe(filling.described.value("accuracy"), filling.everything)
        self._cells = {_setting(cell.published): cell.overrides for cell in filling.described.cells
                       if cell.published is not None and cell.published.is_clean}  # fmt: skip
        self._printed = {_setting(number): number.number for number in filling.described.clean}

    def clean(self, cell: PaperCell) -> tuple[float, float | None]:
        """The accuracy without attack at the settings of a cell, a fraction, nan without a run; and the printed one."""
        setting = _setting(cell.published) if cell.published is not None else ()
        overrides, printed = self._cells.get(setting), self._printed.get(setting)
        if overrides:
            places = self._filling.places.get(overrides, [])
        else:
            config = identity.reference(self._filling.resolved[cell.overrides or ()].config)
            places = self._filling.index.at(matching.config(identity.of(config)))
        runs = self._runs.iloc[places]
        measured = measure(self._value, runs[runs["state"] == "finished"], self._filling.references)
        numbers = [number.number for number in measured.values() if not number.reason]
        accuracy = self._value.accuracy(statistics.fmean(numbers)) if numbers else math.nan
        return accuracy, None if printed is None else self._value.accuracy(printed)


def _setting(printed: Published) -> tuple[str, ...]:
    """The setting of a printed number."""
    return tuple(printed.key.get(name, "") for name in _SETTING)


def _leave_out(filling: Filling) -> None:
    """Take the numbers away of cells that have not learned, and of worst cases of such, which are SMALL; and note
    why."""
    table, learning, small = filling.table, _Learning(filling), dict[Key, tuple[float, float | None]]()
    for cell in filling.described.cells:
        has_runs = cell.overrides is not None and filling.places.get(cell.overrides)
        if has_runs and not has_learned(*(clean := learning.clean(cell))):
            small[key_of(cell)] = clean
    rows = {key[:2] for key in small}
    for key, filled_cell in table.cells.items():
        if key in small or (filled_cell.worst and key[:2] in rows):
            state = "-" if filled_cell.inside is None else SMALL
            table.cells[key] = Cell(state=state, worst=filled_cell.worst, against=filled_cell.against,
                                    key=filled_cell.key, runs=filled_cell.runs)  # fmt: skip
    if known := [clean for clean in small.values() if not math.isnan(clean[0])]:
        table.too_small[filling.overrides] = f"{TOO_SMALL}: without attack Average has {_ends(known, 0)}, " + (
            f"where {_ends(known, 1)} is printed" if known[0][1] is not None else "and nothing is printed"
        )


def _ends(clean: Sequence[tuple[float, float | None]], place: int) -> str:
    """The least and the largest of some accuracies in percent: ``21.4``, ``20.1 to 24.9``."""
    percent = sorted(100 * number for of in clean if (number := of[place]) is not None)
    return " to ".join(dict.fromkeys(f"{number:.1f}" for number in (percent[0], percent[-1])))


def _put_in(own: Filling) -> None:
    """Give each cell of the table that has no result the number of its first stand-in with one, and the table those of
    its stand-ins that have runs."""
    table = own.table
    overrides = {key_of(cell): cell.overrides for cell in own.described.cells}
    for words, other in _fillings(own):
        _leave_out(other)
        table.too_small |= {key: f"{words}: {why}" for key, why in other.table.too_small.items()}
        for key, cell in table.cells.items():
            if other.table.cells[key].state == SMALL and not cell.ended:
                table.cells[key] = replace(cell, state=SMALL)
        if not any(cell.ended for cell in other.table.cells.values()):
            continue
        table.stand_ins[words] = other.table
        for key, cell in table.cells.items():
            theirs = other.table.cells[key]
            if cell.ended or cell.stand_in or not theirs.ended or not (theirs.seeds or theirs.diverged):
                continue
            note = theirs.note and add_note(table.notes, other.table.notes[theirs.note - 1])
            table.cells[key] = replace(theirs, stand_in=words, against=cell.against, note=note)
            own.standing_in |= set(other.places.get(overrides[key] or (), ()))


def _fillings(own: Filling) -> Iterator[tuple[str, Filling]]:
    """The table at each of its stand-ins that has a run, with the difference in words."""
    for overrides in own.described.stand_ins:
        if not _possible(own, overrides):
            continue
        other = Filling(own.described, overrides, own.everything, own.references, own.index)
        if len(other.runs):
            yield difference(own.wanted, other.wanted), other


def _possible(own: Filling, overrides: Overrides) -> bool:
    """Whether any run has what the overrides change for all cells alike; a cheap look before all cells are composed."""
    key, ours = next(iter(own.wanted.items()), ((), {}))
    try:
        theirs = matching.config(matching.resolved((*key, *overrides)).identity)
    except ConfigError:
        return True
    scalars = [name for name in {**ours, **theirs} if "." not in name and name not in _FOLLOWING]
    alike = {name: theirs.get(name) for name in scalars if ours.get(name) != theirs.get(name)}
    alike["dataset._target_"] = theirs.get("dataset._target_")
    return any(all(held.get(name) == value for name, value in alike.items()) for held in own.index.configs)


def difference(own: Mapping[Overrides, Config], other: Mapping[Overrides, Config]) -> str:
    """How the settings of a stand-in differ from the paper's, in words: ``batch size 64 (paper: whole local sets)``."""
    changed: dict[str, tuple[str | None, str | None]] = {}
    for key, theirs in other.items():
        ours = own.get(key, {})
        for name in {**ours, **theirs}:
            follows = "." in name and name.rpartition(".")[2] in _FOLLOWING
            if ours.get(name) != theirs.get(name) and not follows:
                changed.setdefault(name, (theirs.get(name), ours.get(name)))
    return ", ".join(f"{readable(name.removesuffix('._target_'))} {_value(name, theirs)} (paper: {_value(name, ours)})"
                     for name, (theirs, ours) in changed.items())  # fmt: skip


def _value(name: str, value: str | None) -> str:
    """The value of a setting; the name of a class stands for a part."""
    if value is None:
        return _WHOLE.get(name, "none")
    return value.rpartition(".")[2] if name.endswith("._target_") else value
