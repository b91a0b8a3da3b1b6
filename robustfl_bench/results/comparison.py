"""A paper's table with the numbers measured here beside the printed ones, and how well the two agree."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from robustfl_bench.config import options
from robustfl_bench.results.matching import SIZES, Matches, held, match, missing_option
from robustfl_bench.results.records import ENDED, settings, text
from robustfl_bench.results.selection import SelectionError, natural, require_comparable, where
from robustfl_bench.results.sheets import Todo
from robustfl_bench.results.tables import Cell, add_note, make_cell
from robustfl_bench.results.values import Measured, Value, describe, measure

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.papers.tables import PaperCell, PaperTable

POINTS, SPREADS = 2, 2
"""A number is inside when it differs by no more than the larger of this many points and published sd."""

_INFEASIBLE, _NOT_YET = "n/a", "not yet"  # states: no such run can be; no such option is there
_SLACK = 1e-9  # of the comparison: a difference of exactly 2 points is inside
_FEWEST = 3  # methods that a rank correlation needs
LARGEST = 5  # gaps to tell
_UNLIKE = 3  # kinds of runs that are told as not quite of this table

Key = tuple[str, str, str]
"""Block, method and column of a cell."""


@dataclass(frozen=True)
class Compared:
    """A cell: what was measured, what was published, and what of it is compared.

    ``reference`` is the published number, or for a worst case the least of the published numbers under attack, which
    may differ from the printed one; then ``note`` is the number of the footnote that says so. ``difference`` is the
    measured number less the reference, None where there is nothing to compare.
    """

    cell: PaperCell
    measured: Cell
    reference: float
    tolerance: float
    difference: float | None = None
    note: int | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the measured number is within the tolerance of the published one; None without a difference."""
        if self.difference is None:
            return None
        return abs(self.difference) <= self.tolerance + _SLACK  # a diverged run, nan, is outside

    @property
    def lacks(self) -> str:
        """Why there is nothing to compare."""
        if self.cell.column.worst:
            return "without all attacks"
        words = {_INFEASIBLE: "infeasible", _NOT_YET: "not possible in this version", "-": "without reference run"}
        return words.get(self.measured.state, self.measured.state.split(" ")[0])


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation between measured and published numbers of the methods in one column of a block."""

    block: str
    column: str
    methods: int
    rho: float


@dataclass
class Comparison:
    """All cells of a paper's table by block, method and column; ``values`` tells what the numbers of a column are."""

    table: PaperTable
    scale: str
    values: dict[str, Value]
    cells: dict[Key, Compared]
    remarks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)

    @property
    def judged(self) -> list[Compared]:
        """The cells that are measured in full, so that they can be compared."""
        return [cell for cell in self.cells.values() if cell.difference is not None]

    @property
    def lacking(self) -> Counter[str]:
        """How many cells are not compared, by state."""
        return Counter(cell.lacks for cell in self.cells.values() if cell.difference is None)

    @property
    def gaps(self) -> list[Compared]:
        """The differences, largest first, all counted in percentage points."""
        apart = [cell for cell in self.judged if cell.difference]
        return sorted(apart, key=lambda cell: -abs(cell.difference or 0) / points(self.values[cell.cell.column.label]))

    def correlations(self) -> list[Correlation]:
        """For each column of each block with enough methods measured; nan where all methods are equal."""
        found = []
        for block in self.table.blocks:
            for column in self.table.columns:
                here = [cell for cell in self.judged
                        if (cell.cell.block, cell.cell.column.label) == (block.label, column.label)]  # fmt: skip
                if len(here) >= _FEWEST:
                    rho = _spearman([cell.measured.mean for cell in here], [cell.reference for cell in here])
                    found.append(Correlation(block.label, column.label, len(here), rho))
        return found


def compare(
    table: PaperTable,
    runs: pd.DataFrame,
    conditions: Sequence[str] = (),
    scale: str = "paper",
    results_dir: str = "results",
    configs: Sequence[Mapping[str, str]] | None = None,
) -> Comparison:
    """The paper's table made of those of ``runs`` (``records.load``) that have its settings and meet the conditions.

    With ``scale="quick"``, of runs made with scale=quick, whatever their number of rounds, clients, server samples and
    their learning rate. ``results_dir`` is where the command for missing runs is to put them; ``configs`` is
    ``matching.held(runs)``, for who makes several tables and knows it.
    Raises SelectionError for runs that would be mixed although they differ, NoRuns for conditions nothing meets.
    """
    chosen = where(runs, conditions) if conditions else runs
    configs = held(chosen) if configs is None or conditions else configs
    found = match(table.cells, list(chosen["scale"]), configs, scale)
    _require_one_setting(table, chosen, found)
    values = _values(table, chosen)
    comparison = Comparison(table, scale, values, {})
    everyone = chosen.iloc[sorted({index for rows in found.places.values() for index in rows})]
    finished = everyone[everyone["state"] == "finished"]
    measured = {value.name: measure(value, finished, runs) for value in values.values()}
    seeds = sorted(set(everyone["seed"].map(text)), key=natural)
    for cell in table.cells:
        if not cell.column.worst:
            value = values[cell.column.label]
            made = _measured(comparison, cell, chosen.iloc[found.at(cell)], seeds, measured[value.name])
            comparison.cells[_key(cell)] = _judge(cell, made, cell.published.number, value)
    for cell in table.cells:
        if cell.column.worst:
            comparison.cells[_key(cell)] = _worst(comparison, cell)
    comparison.cells = {_key(cell): comparison.cells[_key(cell)] for cell in table.cells}
    comparison.remarks = _remarks(comparison, everyone, conditions, found)
    comparison.todos = _todos(comparison, chosen, found, results_dir)
    return comparison


def _key(cell: PaperCell) -> Key:
    return cell.block, cell.method, cell.column.label


def _name(cell: PaperCell) -> str:
    return " / ".join(filter(None, _key(cell)))


def _values(table: PaperTable, runs: pd.DataFrame) -> dict[str, Value]:
    """What each column shows, with as many decimals as the paper prints there."""
    digits: Counter[str] = Counter()
    for cell in table.cells:
        digits[cell.column.label] = max(digits[cell.column.label], cell.published.digits)
    return {column.label: replace(describe(table.values[column.metric], runs), digits=digits[column.label])
            for column in table.columns}  # fmt: skip


def points(value: Value) -> float:
    """One percentage point, in the unit of the value; of what follows from a formula, half of the last decimal."""
    return {"fraction": 0.01, "Mbit": 0.00025}.get(value.unit, 1)


def _require_one_setting(table: PaperTable, runs: pd.DataFrame, found: Matches) -> None:
    """Raise SelectionError when runs of the table differ in what the table leaves free, so that it would mix them.

    How often a run was evaluated matters only where its best round counts.
    """
    unseen = {"seed"} if "best_accuracy" in table.values.values() else {"seed", "eval_every"}
    free = [name for name in settings(runs) if name not in unseen and not options.is_group(name)
            and {name, name.split(".")[0]} & found.free]  # fmt: skip
    places = {(cell.row, repr(cell.column.runs)): found.at(cell) for cell in table.cells}
    rows = [(*axes, index) for axes, indices in places.items() for index in indices]
    matched = runs.iloc[[index for *_, index in rows]][["state", "seed", *free]]
    matched = matched.assign(row=[str(row) for row, _, _ in rows], column=[column for _, column, _ in rows])
    ended = matched[matched["state"].isin(ENDED)]
    if free and len(ended):
        require_comparable(ended, ("row", "column"))


def _refuse_twins(cell: PaperCell, here: pd.DataFrame) -> None:
    """Raise SelectionError when a seed was run twice, with settings that differ where the table does not look."""
    finished = here[here["state"] == "finished"]
    twice = finished[finished["seed_text"].duplicated(keep=False)]
    if not len(twice):
        return
    first, second, *_ = twice[twice["seed_text"] == twice["seed_text"].iloc[0]].to_dict("records")
    names = [name for name in settings(here) if not options.is_group(name) and text(first[name]) != text(second[name])]
    if names:
        raise SelectionError(
            f"seed {first['seed_text']} of {_name(cell)} has two runs, {first['run']} and "
            f"{second['run']}, which differ in {', '.join(names)}; add for example "
            f"--where {shlex.quote(f'{names[0]}={text(first[names[0]])}')}"
        )


def _judge(cell: PaperCell, measured: Cell, reference: float, value: Value) -> Compared:
    """Compare, where there is a number and it is not a part of what it stands for."""
    tolerance = max(POINTS * points(value), SPREADS * cell.published.spread)
    there = measured.seeds and not (cell.column.worst and measured.partial)
    return Compared(cell, measured, reference, tolerance, measured.mean - reference if there else None)


def _measured(comparison: Comparison, cell: PaperCell, here: pd.DataFrame, seeds: Sequence[str],
              measured: dict[str, Measured]) -> Cell:  # fmt: skip
    """The cell of these runs, or why there cannot be one."""
    if absent := missing_option(cell.runs or {}):
        return Cell(state=_NOT_YET, note=add_note(comparison.notes, f"this version has no {absent}"))
    if not len(here):
        return Cell(state="missing")
    here = here.assign(seed_text=here["seed"].map(text))
    _refuse_twins(cell, here)
    return make_cell(comparison.notes, here, seeds, measured)


def _worst(comparison: Comparison, cell: PaperCell) -> Compared:
    """The least over the attacks of the row, of the measured means and of the published ones, printed or not."""
    row = [other for other in comparison.cells.values()
           if (other.cell.row, other.cell.column.metric) == (cell.row, cell.column.metric)
           and other.cell.column.published["attack"] != "none"]  # fmt: skip
    least = min(row, key=lambda other: other.reference)
    note = None
    if least.reference != cell.published.number:
        note = add_note(
            comparison.notes,
            f"{_name(cell)} is printed as {cell.published.mean}; compared is the least of its printed numbers under "
            f"attack, {least.cell.published.mean} ({least.cell.column.label})",
        )
    value = comparison.values[cell.column.label]
    means = [other.measured.mean for other in row if other.measured.seeds]
    made = Cell(state="-")
    if means:
        lowest = math.nan if any(map(math.isnan, means)) else min(means)
        made = Cell(lowest, seeds=1, partial=len(means) < len(row))  # a minimum of means has no sd
    return replace(_judge(cell, made, least.reference, value), note=note)


def _spearman(measured: Sequence[float], published: Sequence[float]) -> float:
    if len(set(measured)) == 1 or len(set(published)) == 1:
        return math.nan
    from scipy.stats import spearmanr

    return float(spearmanr(measured, published).statistic)


def _remarks(comparison: Comparison, runs: pd.DataFrame, conditions: Sequence[str], found: Matches) -> list[str]:
    """What the runs are, and which were left out."""
    table, quick = comparison.table, comparison.scale == "quick"
    setting = ", ".join(f"{key}={text(value)}" for key, value in table.runs.items())
    remarks = [f"setting: {setting}; all else as shipped"]
    if quick:
        ended = runs[runs["state"].isin(ENDED)]
        sizes = [f"{name}={text(ended[name].iloc[0])}" for name in SIZES
                 if name in ended and ended[name].map(text).nunique() == 1]  # fmt: skip
        remarks = [
            f"MADE AT scale=quick ({', '.join(sizes) or 'no run yet'}): a small version for a try-out, not the paper's "
            f"experiment; the published numbers are those of the full one",
            f"setting of the full one: {setting}",
        ]
    remarks += [f"where {', '.join(conditions)}"] if conditions else []
    if found.other_scale:
        other = "paper" if quick else "quick"
        plural = "s" if found.other_scale > 1 else ""
        remarks.append(f"not shown: {found.other_scale} run{plural} made at scale={other}; --scale {other} shows them")
    for unlike, count in found.unlike.most_common(_UNLIKE):
        remarks.append(f"not shown: {count} run{'s' if count > 1 else ''} with {unlike}")
    return remarks


def _todos(comparison: Comparison, runs: pd.DataFrame, found: Matches, results_dir: str) -> list[Todo]:
    """Failed and unfinished runs, and the one command that makes all that is missing."""
    mine = runs.iloc[sorted({index for rows in found.places.values() for index in rows})]
    todos = []
    for run in mine.to_dict("records"):
        if run["state"] == "failed":
            todos.append(Todo("failed", f"{run['run']}: {run['error']}", str(run["command"])))
        elif run["state"] not in ENDED:
            rounds = f"{text(run['rounds_done'])}/{text(run['rounds'])} rounds"
            todos.append(Todo(str(run["state"]), f"{run['run']}: {rounds}"))
    own = [cell.measured for cell in comparison.cells.values() if cell.cell.runs is not None]
    empty = sum(not cell.seeds and cell.state not in (_INFEASIBLE, _NOT_YET) for cell in own)
    fewer = sum(bool(cell.seeds) and cell.partial for cell in own)
    if empty or fewer:
        counts = [f"{empty} of {len(own)} cells have no number"] * bool(empty)
        counts += [f"{fewer} {'has' if fewer == 1 else 'have'} fewer seeds than others"] * bool(fewer)
        todos.append(Todo("missing", *_preset(comparison, ", ".join(counts), results_dir)))
    return todos


def _preset(comparison: Comparison, counts: str, results_dir: str) -> tuple[str, str]:
    """What is told of the missing runs, and the command that makes them."""
    name = comparison.table.name
    if not options.exists("experiment", name):
        return f"{counts}; there is no preset experiment={name} yet", ""
    words = ["robustfl-bench", "-m", f"+experiment={name}"]
    words += ["scale=quick"] if comparison.scale == "quick" else []
    words += [f"results_dir={results_dir}"] if results_dir != "results" else []
    return f"{counts}; this runs only what is missing", shlex.join(words)
