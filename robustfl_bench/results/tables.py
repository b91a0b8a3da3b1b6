"""A pivot of runs: mean (sd) over seeds per cell, and everything that is missing from it said out loud."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from robustfl_bench.results.commands import join_commands
from robustfl_bench.results.records import ENDED, NoRuns, text
from robustfl_bench.results.selection import (
    SelectionError,
    brought_along,
    check_name,
    keys,
    natural,
    require_comparable,
    where,
)
from robustfl_bench.results.sheets import Todo
from robustfl_bench.results.values import Measured, Value, describe, measure

if TYPE_CHECKING:
    import pandas as pd

WORST = "Wst"
_FIRST = ("none", "average", "fedavg", "rar", "server")
_LAST = ("boba_wo_stage1", "boba_wo_stage2", "boba_es", "boba")
_CONTEXT = ("scale", "dataset", "model", "partition", "rounds", "num_clients", "num_byzantine")


@dataclass(frozen=True)
class Cell:
    """``mean`` and ``sd`` over ``seeds`` runs, in the table's unit; or, with ``seeds`` = 0, why there is no number.

    ``state`` is shown in place of a number. ``partial``: some of what the cell stands for is not there yet.
    ``note`` is the number of the footnote with the reason.
    """

    mean: float = math.nan
    sd: float = math.nan
    seeds: int = 0
    state: str = ""
    partial: bool = False
    note: int | None = None

    def text(self, digits: int) -> str:
        """``91.2 (0.3)``, ``91.2`` for one seed, or the state; without marks."""
        if not self.seeds:
            return self.state
        spread = f" ({self.sd:.{digits}f})" if self.seeds > 1 else ""
        return f"{self.mean:.{digits}f}{spread}"


@dataclass
class Table:
    """Cells by (row, column) label, what the numbers are, and what the reader has to know."""

    value: Value
    row_key: str
    column_key: str
    rows: list[str]
    columns: list[str]
    cells: dict[tuple[str, str], Cell]
    conditions: list[str]
    remarks: list[str]
    notes: list[str] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)

    @property
    def caption(self) -> str:
        """What a number is, its unit, and over how many seeds."""
        counts = sorted({cell.seeds for (_, column), cell in self.cells.items() if cell.seeds and column != WORST})
        if not counts:
            over = "no finished run"
        elif counts[-1] == 1:
            over = "1 seed"
        else:
            over = f"mean (sample sd) over {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds"
        return f"{self.value.title} {self.value.heading}".strip() + f"; {over}"

    @property
    def corner(self) -> str:
        """Heading of the row labels: both keys and the unit."""
        return f"{self.row_key} / {self.column_key} {self.value.heading}".strip()

    def best(self, column: str) -> set[str]:
        """The rows that print the best number of a column; cells that are not complete do not take part."""
        complete = {row: cell for row in self.rows if (cell := self.cells[row, column]).seeds and not cell.partial}
        means = {row: cell.mean for row, cell in complete.items() if math.isfinite(cell.mean)}
        if not means or not self.value.better:
            return set()
        top = f"{max(means.values(), key=lambda mean: self.value.better * mean):.{self.value.digits}f}"
        return {row for row, mean in means.items() if f"{mean:.{self.value.digits}f}" == top}


def pivot(
    runs: pd.DataFrame,
    rows: str = "aggregator",
    columns: str = "attack",
    value: str = "final_accuracy",
    conditions: Sequence[str] = (),
) -> Table:
    """The table of one value of the ``runs`` of ``records.load`` that meet the conditions.

    Raises SelectionError for unknown names and for runs that differ in more than rows, columns and seed; NoRuns when
    the conditions leave nothing. Damaged folders and unfinished ones without a config are left out, with a remark.
    """
    for name in (rows, columns):
        check_name(name, keys(runs), "key")
    if rows == columns:
        raise SelectionError(f"rows and columns must differ, both are {rows}")
    described = describe(value, runs)
    chosen = where(runs, conditions)
    readable = chosen[(chosen["state"] != "damaged") & chosen[[rows, columns]].notna().all(axis=1)]
    if not len(readable):
        raise NoRuns("no run can be read; robustfl-results status says why")
    done = readable[readable["state"].isin(ENDED)]
    if len(done):
        require_comparable(done, (rows, columns))
    remarks = _remarks(chosen, readable, (rows, columns))
    readable = readable.assign(
        row=readable[rows].map(text), column=readable[columns].map(text), seed_text=readable["seed"].map(text)
    )
    table = Table(
        described,
        rows,
        columns,
        sorted(set(readable["row"]), key=order),
        sorted(set(readable["column"]), key=order),
        {},
        list(conditions),
        remarks,
    )
    _fill(table, readable, measure(described, readable[readable["state"] == "finished"], runs))
    if columns == "attack" and described.better:
        _add_worst(table)
    return table


def _fill(table: Table, runs: pd.DataFrame, measured: dict[str, Measured]) -> None:
    """Make every cell, with its footnote and the list of what it lacks."""
    by_cell = dict(list(runs.groupby(["row", "column"])))
    seeds = sorted(set(runs["seed_text"]), key=natural)
    for row in table.rows:
        for column in table.columns:
            here = by_cell.get((row, column), runs.iloc[:0])
            wanted = sorted(set(here["seed_text"])) if "seed" in (table.row_key, table.column_key) else seeds
            table.cells[row, column] = make_cell(table.notes, here, wanted, measured)
            table.todos += _todos(table, runs, here, (row, column), wanted)
    wanting = Counter(found.command for found in measured.values() if found.command)
    for command, users in wanting.items():
        plural = "s" if users > 1 else ""
        table.todos.append(Todo("reference", f"for the {table.value.name} of {users} run{plural}", command))


def make_cell(notes: list[str], here: pd.DataFrame, wanted: Sequence[str], measured: dict[str, Measured]) -> Cell:
    """What the runs ``here`` give; ``wanted`` are the seeds of a full cell, a reason joins the ``notes``."""
    finished = here[here["state"] == "finished"]
    _refuse_duplicates(finished)
    found = [measured[folder] for folder in finished["folder"]]
    numbers = [one.number for one in found if not one.reason]
    infeasible = here[here["state"] == "infeasible"]
    reasons = [one.reason for one in found if one.reason] + [error or "infeasible" for error in infeasible["error"]]
    note = add_note(notes, reasons[0]) if reasons else None
    if numbers:
        mean, spread = _mean_and_sd(numbers)
        return Cell(mean, spread, len(numbers), partial=len(numbers) < len(wanted), note=note)
    if reasons:
        return Cell(state="-" if found else "n/a", note=note)
    for state in ("failed", "running", "unfinished"):
        if len(there := here[here["state"] == state]):
            return Cell(state=state if state == "failed" else f"{state} {_progress(there)}")
    return Cell(state="missing")


def _mean_and_sd(numbers: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1); nan as soon as one number is not finite."""
    if not all(map(math.isfinite, numbers)):
        return sum(numbers), math.nan
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else math.nan


def _refuse_duplicates(finished: pd.DataFrame) -> None:
    """Comparable runs of one cell that share a seed are one run in two folders: counting both would be a lie."""
    twice = finished[finished["seed_text"].duplicated(keep=False)]
    if len(twice):
        first, second = twice["run"].iloc[:2]
        raise SelectionError(f"one run lies in two folders, {first} and {second}; remove one of them")


def _progress(runs: pd.DataFrame) -> str:
    """Rounds done and planned of the run that came furthest."""
    run = max(runs.to_dict("records"), key=lambda run: run["rounds_done"])
    return f"{text(run['rounds_done'])}/{text(run['rounds'])}"


def add_note(notes: list[str], reason: str) -> int:
    """The number, from 1, of the footnote with this text."""
    if reason not in notes:
        notes.append(reason)
    return notes.index(reason) + 1


def _todos(
    table: Table, runs: pd.DataFrame, here: pd.DataFrame, place: tuple[str, str], wanted: Sequence[str]
) -> list[Todo]:
    """The failed, unfinished and missing runs of a cell."""
    where_ = f"{place[0]} / {place[1]}"
    todos = []
    for state in ("failed", "running", "unfinished"):
        for run in here[here["state"] == state].to_dict("records"):
            told = run["error"] if state == "failed" else f"{text(run['rounds_done'])}/{text(run['rounds'])} rounds"
            todos.append(Todo(state, f"{where_}, seed {run['seed_text']}: {told}", run["command"]))
    missing = [seed for seed in wanted if seed not in set(here["seed_text"])]
    if missing or not len(here):
        plural = "s" if len(missing) > 1 else ""
        what = f"{where_}, seed{plural} {', '.join(missing)}" if missing else where_
        commands = {
            axis: next((c for c in runs.loc[runs[side] == label, "command"] if c), "")
            for axis, side, label in ((table.row_key, "row", place[0]), (table.column_key, "column", place[1]))
        }
        labels = {table.row_key: place[0], table.column_key: place[1]}
        todos.append(Todo("missing", what, join_commands(commands, labels, missing)))
    return todos


def _add_worst(table: Table) -> None:
    """The worst mean over the attacks, for each row; a row with an attack that has no full result is marked."""
    attacks = [column for column in table.columns if column != "none"]
    if not attacks:
        return
    for row in table.rows:
        cells = [table.cells[row, attack] for attack in attacks]
        means = [cell.mean for cell in cells if cell.seeds]
        if means:
            worst = min(means, key=lambda mean: table.value.better * mean if math.isfinite(mean) else -math.inf)
            partial = any(cell.partial or not cell.seeds for cell in cells)
            table.cells[row, WORST] = Cell(worst, seeds=1, partial=partial)  # a minimum of means has no sd
        else:
            table.cells[row, WORST] = Cell(state="-")
    table.columns.append(WORST)


def _remarks(chosen: pd.DataFrame, readable: pd.DataFrame, axes: tuple[str, str]) -> list[str]:
    """The setting all runs share, what changes along the axes, and how many runs are left out."""
    shared = [
        f"{name}={text(readable[name].iloc[0])}"
        for name in _CONTEXT
        if name in readable and readable[name].notna().all() and readable[name].map(text).nunique() == 1
    ]
    remarks = [", ".join(shared)] if shared else []
    remarks += [f"differs with the {' or '.join(axes)}: {line}" for line in brought_along(readable, axes)]
    if len(left_out := chosen.index.difference(readable.index)):
        remarks.append(f"{len(left_out)} damaged or just begun runs left out; robustfl-results status names them")
    return remarks


def order(label: str) -> tuple[int, tuple[float, str]]:
    """Baselines first, the BOBA family last, numbers by size, else alphabetical."""
    if label in _FIRST:
        return _FIRST.index(label) - len(_FIRST), natural(label)
    return _LAST.index(label) + 1 if label in _LAST else 0, natural(label)
