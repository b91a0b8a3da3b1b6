"""The tables of any sweep: one value of its runs, by two settings; and a setting that validation chooses."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from robustfl_bench.base.console import counted
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import pd
from robustfl_bench.base.trees import flatten
from robustfl_bench.read.runs import commands
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.read.runs.records import ENDED, MEASURED, NoRuns, leaf, settings, text
from robustfl_bench.read.runs.values import Measured, Value, describe, evaluated, measure
from robustfl_bench.read.runs.where import (
    UNREADABLE,
    brought_along,
    canonical,
    check_name,
    is_constant,
    is_seed,
    keys,
    natural,
    order,
    require_comparable,
    where,
)
from robustfl_bench.read.tables.agreement import span
from robustfl_bench.read.tables.sheets import Printed, Sheet, Todo
from robustfl_bench.read.tables.table import (
    WORST,
    Column,
    Table,
    add_note,
    facts,
    make_cell,
    references,
    stopped,
)
from robustfl_bench.runner.config import options, outside

_CONTEXT = ("scale", "dataset", "model", "partition", "rounds", "num_clients", "num_byzantine")


def pivot(
    runs: pd.DataFrame,
    rows: str = "aggregator",
    columns: str = "attack",
    value: str = "final_accuracy",
    conditions: Sequence[str] = (),
) -> Table:
    """The table of one value of the ``runs`` of ``records.load`` that meet the conditions.

    Raises ConfigError for unknown names and for runs that differ in more than rows, columns and seed; NoRuns when
    the conditions leave nothing. Damaged folders and unfinished ones without a config are left out, with a remark.
    """
    names = [*rows.split(","), *columns.split(",")]
    for name in names:
        check_name(name, keys(runs), "key")
    if len(set(names)) < len(names):
        raise ConfigError(f"rows and columns must differ, they are {rows} and {columns}")
    described = describe(value, runs)
    chosen = where(runs, conditions)
    for axis in (rows, columns):
        if "," in axis:
            chosen = chosen.assign(**{axis: _joined(chosen, axis.split(","))})
    readable = chosen[(chosen["state"] != "damaged") & chosen[[rows, columns]].notna().all(axis=1)]
    if not len(readable):
        raise NoRuns(UNREADABLE)
    done = readable[readable["state"].isin(ENDED)]
    if len(done):
        require_comparable(done, (rows, columns))
    remarks = _remarks(chosen, readable, (rows, columns), conditions)
    remarks += evaluated([value], readable)
    remarks += origins(readable)
    readable = readable.assign(row=readable[rows].map(text), column=readable[columns].map(text))
    labels = sorted(set(readable["column"]), key=order)
    own = set(readable.loc[_is_own(readable, rows), "row"])
    table = Table(
        title="",
        corner=f"{rows} / {columns} {described.heading}".strip(),
        blocks=("",),
        rows=tuple(sorted(set(readable["row"]), key=lambda label: (label in own, *order(label)))),
        columns=tuple(Column(label, described, attacked=label != "none") for label in labels),
        remarks=remarks,
    )
    _fill(table, (rows, columns), readable, runs)
    if columns == "attack" and described.better and labels != ["none"]:
        label = f"{WORST} of all" if WORST in labels else WORST  # others can do more harm than the attack of this name
        worst = Column(label, described, worst=True)
        table.columns += (worst,)
        table.add_worst(worst)
        if label != WORST and not any(_is_worse(table, row, label) for row in table.rows):
            table.columns = table.columns[:-1]
            table.cells = {key: cell for key, cell in table.cells.items() if key[2] != label}
    for (block, row, column), cell in list(table.cells.items()):
        table.cells[block, row, column] = replace(cell, key={rows: row, columns: column})
    table.title = _title(table, described)
    return table


def _is_worse(table: Table, row: str, label: str) -> bool:
    """Whether another attack than the one named worst is the worst of a row."""
    value = table.columns[0].value
    known = (table.cells.get(("", row, name)) for name in (WORST, label))
    return len({cell.counts_as(value) for cell in known if cell is not None}) > 1


def _joined(runs: pd.DataFrame, names: Sequence[str]) -> pd.Series[str]:
    """The values of several settings as one label; a setting that a run does not have is left out."""
    written = [runs[name].map(text) for name in names]
    rows = zip(*written, strict=True)
    labels = [" ".join(value for value in row if value not in ("absent", "null")) for row in rows]
    return runs.index.to_series().map(dict(zip(runs.index, labels, strict=True)))


def _is_own(runs: pd.DataFrame, axis: str) -> pd.Series[bool]:
    """Which runs have, in the config group of the axis, a part from outside this package."""
    target = f"{axis.split(',')[0]}._target_"
    if target not in runs:
        return runs.index.to_series().map(lambda _: False)
    return ~runs[target].map(text).str.match(r"robustfl_bench\.|absent$|null$")


def _fill(table: Table, axes: tuple[str, str], runs: pd.DataFrame, everything: pd.DataFrame) -> None:
    """Fill every cell, and list its footnote and its missing runs."""
    value = table.columns[0].value
    measured = measure(value, runs[runs["state"] == "finished"], everything)
    by_cell = grouped(zip(zip(runs["row"], runs["column"], strict=True), facts(runs), strict=True))
    seeds = sorted(set(runs["seed"].map(text)), key=natural)
    for row in table.rows:
        for column in (column.label for column in table.columns):
            cell_runs = by_cell.get((row, column), [])
            present = {run["seed"] for run in cell_runs}
            wanted = sorted(present) if "seed" in ",".join(axes).split(",") else seeds
            name = f"{row} / {column}"
            table.cells["", row, column] = make_cell(name, table.notes, cell_runs, wanted, measured)
            table.todos += stopped(name, cell_runs)
            missing = [seed for seed in wanted if seed not in present]
            if missing or not cell_runs:
                plural = "s" if len(missing) > 1 else ""
                what = f"{name}, seed{plural} {', '.join(missing)}" if missing else name
                table.todos.append(Todo("missing", what, _command(runs, axes, (row, column), missing)))
    table.todos += references(value, measured)


def _command(runs: pd.DataFrame, axes: tuple[str, str], place: tuple[str, str], seeds: Sequence[str]) -> str:
    """The command of an empty cell: a run of its row, with what all runs of its column have in common instead."""
    key, label = axes[1], place[1]
    known = [name for name in settings(runs) if name not in ("row", "column")]
    if "," in key or (options.is_group(key) and label.startswith("[")):  # several settings, or parts, at once
        return ""
    neighbours, above = runs[runs["row"] == place[0]], runs[runs["column"] == label]
    if not len(neighbours) or not len(above) or not {*axes} <= {*known}:
        return ""
    neighbour = neighbours.iloc[0]
    chosen = _as_chosen(above, key, label)
    changes = [] if key == "seed" else [f"{key}={chosen}"]
    shipped, follows = _shipped(key, label)
    nested = options.place_of(key, chosen) if options.is_group(key) else None
    for name in known:
        values = set(above[name].map(text))
        scalar = "." not in name and not options.is_group(name) and not is_seed(name)
        part = name.startswith(f"{key}.") and not name.endswith("._target_") and name not in follows
        if name not in axes and (scalar or part) and len(values) == 1 and values != {"absent"}:
            now = shipped.get(name, "") if part else text(neighbour[name])
            written = f"{key}.{nested}{name.removeprefix(key)}" if part and nested else name
            changes += [f"{written}={values.pop()}"] if values != {now} else []
    own_seeds = [label for axis, label in zip(axes, place, strict=True) if axis == "seed"]
    return commands.rerun(neighbour["folder"], changes, own_seeds or seeds)


def _as_chosen(runs: pd.DataFrame, key: str, label: str) -> str:
    """What chooses a part on the command line: its label, or ``module:Class`` of one from outside this package."""
    if not _is_own(runs, key).all():
        return label
    return outside.word(str(runs[f"{key}._target_"].iloc[0]))


def _shipped(group: str, name: str) -> tuple[dict[str, str], set[str]]:
    """The settings of an option as ``conf/`` has them, and those that follow other settings."""
    if not options.is_group(group) or not options.exists(group, name):
        return {}, set()
    flat = {f"{group}.{key}": value for key, value in flatten(options.option(group, name))}
    follows = {key for key, value in flat.items() if isinstance(value, str) and "${" in value}
    return {key: canonical(text(leaf(value))) for key, value in flat.items()}, follows


def _title(table: Table, value: Value) -> str:
    """What a number is, its unit, and over how many seeds."""
    counts = [cell.seeds for cell in table.cells.values() if cell.seeds and not cell.worst]
    if not counts:
        over = "no run has a number"
    else:
        over = "1 seed" if max(counts) == 1 else f"mean (sample sd) over {span(counts)} seeds"
    return f"{value.with_unit}; {over}"


def _remarks(
    chosen: pd.DataFrame, readable: pd.DataFrame, axes: tuple[str, str], conditions: Sequence[str]
) -> list[str]:
    """The setting all runs share, what changes along the axes, and how many runs are left out."""
    shared = [f"{name}={text(readable[name].iloc[0])}" for name in _CONTEXT if is_constant(readable, name)]
    remarks = [f"where {', '.join(conditions)}"] if conditions else []
    remarks += [", ".join(shared)] if shared else []
    remarks += [f"differs with the {' or '.join(axes)}: {line}" for line in brought_along(readable, axes)]
    is_damaged = chosen["state"] == "damaged"
    if number := int(is_damaged.sum()):
        remarks.append(f"{number} damaged or just begun runs left out; robustfl-results status names those of a folder")
    lacking = {name: int((chosen[name].isna() & ~is_damaged).sum()) for name in axes}
    remarks += [f"{counted(number, 'run')} without {name} left out" for name, number in lacking.items() if number]
    return remarks


CHOOSER, SHOWN = "validation_accuracy", "tuned_accuracy"
_AXES = ("aggregator", "attack")


def tuned(runs: pd.DataFrame, over: str, conditions: Sequence[str] = ()) -> Sheet:
    """The value of the setting ``over`` with the best mean validation accuracy over seeds, for every cell. Beside it is
    the mean (sample sd) over seeds of the test accuracy at that value, each in the round of its best validation
    accuracy. The choice uses no test number. Values are compared over all seeds of the cell: a value that lacks a seed,
    or whose model diverged for one, is not chosen. Of equal values, the smallest is chosen.

    Raises ConfigError for unknown names and for runs that differ in more than these settings and the seed, NoRuns
    when no run has a validation accuracy.
    """
    check_name(over, keys(runs), "key")
    if over in (*_AXES, "seed"):
        raise ConfigError(f"--over takes a setting that was swept, such as lr, not {over}")
    chosen = where(runs, conditions)
    chosen = chosen[chosen["state"].isin(ENDED) & chosen[[*_AXES, over]].notna().all(axis=1)]
    if not chosen[CHOOSER].notna().any():
        raise NoRuns("none of these runs has a validation accuracy; make them with validation_share=0.1")
    require_comparable(chosen, (*_AXES, over))
    notes: list[str] = []
    cells = {place: _cell(group, over, notes) for place, group in _by(chosen, *_AXES)}
    rows = sorted({row for row, _ in cells}, key=order)
    columns = sorted({column for _, column in cells}, key=order)
    return Sheet(
        above=[
            f"{describe(SHOWN, chosen).title} [%], at the {over} of the best mean validation accuracy over seeds",
            f"{over}: mean (sample sd) over seeds; no test number takes part in the choice",
            *([f"where {', '.join(conditions)}"] if conditions else []),
        ],
        heading=["aggregator / attack", *columns],
        rows=[[Printed(row), *(cells.get((row, column), Printed("missing")) for column in columns)] for row in rows],
        footnotes=[f"[{number}] {note}" for number, note in enumerate(notes, 1)],
    )


def _by(runs: pd.DataFrame, *names: str) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
    """The runs by the values of settings, as text."""
    groups = runs.groupby([runs[name].map(text) for name in names])
    return [(tuple(map(str, place)), group) for place, group in groups]


def _cell(runs: pd.DataFrame, over: str, notes: list[str]) -> Printed:
    """The chosen value and the test accuracy at that value, or why no value is chosen."""
    seeds = set(runs["seed"].map(text))
    validated: dict[str, float] = {}
    left_out = []
    for (value,), group in sorted(_by(runs, over), key=lambda item: natural(item[0][0])):
        numbers = _numbers(CHOOSER, group)
        if len(numbers) == len(seeds) == len(group):
            validated[value] = statistics.fmean(numbers)
        else:
            diverged = int((group["state"] == "diverged").sum())
            why = f"{diverged} diverged" if diverged else f"{len(numbers)} of {len(seeds)} seeds"
            left_out.append(f"{canonical(value)} ({why})")
    note = add_note(notes, f"not chosen among: {', '.join(left_out)}") if left_out else None
    if not validated:
        return Printed("none", note=note)
    best = max(validated, key=lambda value: validated[value])
    return Printed(f"{best}: {_spread(_numbers(SHOWN, runs[runs[over].map(text) == best]))}", note=note)


def _numbers(name: str, runs: pd.DataFrame) -> list[float]:
    """A value of the runs that have it, in its unit."""
    finished = runs[runs["state"].isin(MEASURED)]
    measured: Mapping[str, Measured] = measure(describe(name, runs), finished, runs)
    return [value.number for value in measured.values() if not value.reason]


def _spread(numbers: Sequence[float]) -> str:
    spread = f" ({statistics.stdev(numbers):.1f})" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.1f}{spread}"
