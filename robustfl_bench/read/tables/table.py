"""A table of runs: mean (sd) over seeds per cell, the published number beside it, and what the table lacks."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs import commands
from robustfl_bench.read.runs.records import text
from robustfl_bench.read.runs.statistics import COMPARED, indistinguishable, two_samples
from robustfl_bench.read.runs.values import TOO_SMALL, UNLEARNED, Measured, Value, unlearned
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables.claims import Key as Key
from robustfl_bench.read.tables.sheets import Todo

WORST = "worst"
POINTS, SPREADS = 2, 2
WITHIN, SPREAD_ONLY, AS_PRINTED = f"within {POINTS} points", "within the printed spread only", "diverged as printed"
PARTS = (WITHIN, SPREAD_ONLY, AS_PRINTED)
INSIDE = (
    f"{WITHIN} of the printed number; {SPREAD_ONLY}, that is {SPREADS} printed standard deviations or, if both sides "
    f"have several seeds, Welch's 95% interval; or {AS_PRINTED}: all seeds did, and the paper prints what a model has "
    "that answers one class for every sample"
)
"""When a cell is inside, in words; its parts are those of ``Cell.inside_by``."""
FEW = 5
"""With fewer seeds intervals are wide."""

INFEASIBLE, NOT_YET = "n/a", "not yet"  # states: no such run can be; this version has no such option
DIVERGED = "diverged"
SMALL = "too small"
"""Of runs whose models have not learned (``runs.values.has_learned``)."""
_SLACK = 1e-9  # of the comparison: a difference of exactly 2 points is inside


@dataclass(frozen=True)
class Against:
    """What a cell is compared with.

    ``printed`` is what the paper prints, ``number`` the number in it, and ``reference`` the one that is compared: for a
    worst case the worst of the published ones. Where the two differ, ``note`` is the number of the footnote about it.
    ``sd`` is that of the reference over ``seeds`` runs, 0 where none is printed; ``seeds`` is 0 where the paper does
    not give it. ``margin`` is the difference that always counts as inside, in the unit of the numbers.
    ``constant`` says whether the reference is, to its last digit, the number of a model that answers one class for
    every test sample.
    """

    printed: str
    number: float
    reference: float
    margin: float
    sd: float = 0
    seeds: int = 0
    note: int | None = None
    constant: bool = False


@dataclass(frozen=True)
class Cell:
    """``mean`` and ``sd`` over ``seeds`` runs, in the column's unit; or, with ``seeds`` = 0, why there is no number.

    ``state`` is shown in place of a number. A ``partial`` cell has fewer seeds than others, or is a worst case in which
    an attack has no full result. A worst case has the numbers of the cell that attains it. ``numbers`` are those of the
    seeds, nan for a model that diverged. ``rounded`` names the types that their runs rounded the factors of products
    to. A ``stand_in`` was measured with other settings than the paper's, and says which. ``note`` is the number of the
    footnote with the reason. ``key`` names the cell in CSV. ``runs`` are the folders of all its runs, whatever their
    state.
    """

    mean: float = math.nan
    sd: float = math.nan
    seeds: int = 0
    state: str = ""
    partial: bool = False
    rounded: str = ""
    stand_in: str = ""
    note: int | None = None
    against: Against | None = None
    worst: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)
    key: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ()

    def text(self, digits: int) -> str:
        """``91.2 (0.3)``, ``91.2`` for one seed, or the state; without marks."""
        if not self.seeds:
            return self.state
        spread = f" ({self.sd:.{digits}f})" if self.seeds > 1 else ""
        return f"{self.mean:.{digits}f}{spread}"

    @property
    def diverged(self) -> bool:
        """Whether the model of a seed diverged."""
        return self.state.startswith(DIVERGED)

    @property
    def ended(self) -> bool:
        """Whether the cell has its result: a number, of all attacks if it is a worst case, a model that diverged, or a
        rule that cannot be run."""
        if self.worst and self.partial:
            return False
        return bool(self.seeds) or self.diverged or self.state == INFEASIBLE

    @property
    def difference(self) -> float | None:
        """The measured number less the published one; None without a number, or for a worst case in part."""
        if self.against is None or not self.seeds or (self.worst and self.partial):
            return None
        return self.mean - self.against.reference

    @property
    def tolerance(self) -> float | None:
        """How large a difference counts as inside; None without a published number."""
        if self.against is None:
            return None
        ours, theirs = (self.mean, self.sd, self.seeds), (self.against.reference, self.against.sd, self.against.seeds)
        if self.against.sd and (interval := two_samples(ours, theirs)) is not None:
            return max(self.against.margin, (interval.high - interval.low) / 2)
        return max(self.against.margin, SPREADS * self.against.sd)

    @property
    def inside(self) -> bool | None:
        """Whether the measured number is as near to the published one as the tolerance; None without either.

        A model that diverged has no number: it is inside where the published one is ``constant`` and the models of all
        seeds diverged."""
        if self.against is None or (self.worst and self.partial):
            return None
        if self.diverged:
            return self.against.constant and self.state == DIVERGED
        if self.difference is None or self.tolerance is None:
            return None
        return abs(self.difference) <= self.tolerance + _SLACK

    @property
    def inside_by(self) -> str:
        """By which of PARTS the cell is inside; empty if it is not."""
        if not self.inside or self.against is None:
            return ""
        if self.difference is None:
            return AS_PRINTED
        return WITHIN if abs(self.difference) <= self.against.margin + _SLACK else SPREAD_ONLY

    def counted(self, value: Value) -> Mapping[str, float]:
        """The numbers of the seeds, where a model that diverged has the worst that there can be."""
        return {seed: value.worst if math.isnan(number) else number for seed, number in self.numbers.items()}

    def counts_as(self, value: Value) -> float:
        """The mean of ``counted``; of a model that diverged in every seed, the worst that there can be."""
        if not self.diverged:
            return self.mean if math.isfinite(self.mean) else value.worst
        return statistics.fmean(self.counted(value).values()) if self.numbers else value.worst

    @property
    def lacks(self) -> str:
        """Why the cell is not compared with the number of the paper's own settings."""
        if self.stand_in:
            return "only as stand-ins"
        if self.state == SMALL:
            return TOO_SMALL
        if self.worst and (self.partial or self.state != DIVERGED):
            return "without all attacks"
        words = {INFEASIBLE: "infeasible", NOT_YET: "not possible in this version", "-": "without reference run"}
        return words.get(self.state, self.state.split(" ")[0])


@dataclass(frozen=True)
class Column:
    """A column, whose numbers are of one ``value``. In a ``worst`` column each number is the worst of the row's
    attacks."""

    label: str
    value: Value
    worst: bool = False
    attacked: bool = False


@dataclass
class Table:
    """Cells by block, row and column, with remarks above them, and notes and missing runs below.

    ``compared`` says whether published numbers are shown below the measured ones; with ``order_only`` the whole table
    is measured so differently that only the order of its rows can be compared. ``stand_ins`` are the table with other
    settings, by what differs, of which single cells stand in for cells without a result; ``too_small`` are others, by
    their overrides, with the reason why they stand in for none. With ``shows_seeds`` every
    cell has its number of seeds, and a line above says what the numbers are; else the title says both. ``notation``
    says how the numbers of a cell are written.
    """

    title: str
    corner: str
    blocks: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: dict[Key, Cell] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    todos: list[Todo] = field(default_factory=list)
    compared: bool = False
    order_only: bool = False
    stand_ins: dict[str, Table] = field(default_factory=dict)
    too_small: dict[tuple[str, ...], str] = field(default_factory=dict)
    shows_seeds: bool = False
    notation: str = ""

    def cell(self, row: str, column: str, block: str = "") -> Cell:
        """One cell by its labels."""
        return self.cells[block, row, column]

    def column(self, label: str) -> Column:
        """A column by its label."""
        return next(column for column in self.columns if column.label == label)

    def by_row(self, column: Column, block: str) -> dict[str, Cell]:
        """The cells of a column in a block, by row."""
        return {row: cell for row in self.rows if (cell := self.cells.get((block, row, column.label)))}

    def in_order(self) -> Iterator[tuple[Key, Cell]]:
        """The cells row by row."""
        for block in self.blocks:
            for row in self.rows:
                for column in self.columns:
                    if (key := (block, row, column.label)) in self.cells:
                        yield key, self.cells[key]

    @property
    def judged(self) -> dict[Key, Cell]:
        """The cells that are measured in full with the table's own settings, so that they can be compared; also those
        whose model diverged, without a number."""
        return self.judged_as("")

    def judged_as(self, stand_in: str) -> dict[Key, Cell]:
        """The same of the cells that one stand-in measured."""
        return {key: cell for key, cell in self.in_order() if cell.inside is not None and cell.stand_in == stand_in}

    @property
    def diverged(self) -> dict[Key, Cell]:
        """The cells that are compared without a number, as their model diverged; stand-ins as well."""
        return {key: cell for key, cell in self.in_order() if cell.diverged and cell.inside is not None}

    @property
    def stood_in(self) -> dict[Key, Cell]:
        """The cells that any of its stand-ins measured in full."""
        return {key: cell for words in self.stand_ins for key, cell in self.judged_as(words).items()}

    @property
    def kinds(self) -> list[str]:
        """What its numbers are measured with: "" for its own settings, then its stand-ins of which it has cells."""
        shown = {cell.stand_in for cell in self.cells.values()}
        return ["", *(words for words in self.stand_ins if words in shown)]

    @property
    def lacking(self) -> Counter[str]:
        """How many cells are not compared, by reason."""
        return Counter(cell.lacks for cell in self.cells.values() if cell.inside is None or cell.stand_in)

    def incomplete(self, cell: Cell) -> bool:
        """Whether a cell lacks runs. A cell that shows its number of seeds may have fewer seeds."""
        return cell.partial and (cell.worst or not self.shows_seeds)

    def by_mean(self, cell: Cell) -> bool:
        """Whether the cell, if it is bold, is so by its mean alone, as its seeds are too few, and others are tested."""
        return 0 < cell.seeds < COMPARED <= self.seeds[-1]

    @property
    def has_bold_by_mean(self) -> bool:
        """Whether a bold cell is so by its mean alone."""
        return any(self.by_mean(self.cells[block, row, column.label]) for block in self.blocks
                   for column in self.columns for row in self.best(column, block))  # fmt: skip

    def marks(self, *cells: Cell, is_bold: bool = False) -> str:
        """The marks behind a number of these cells: a tilde for rounded products, a star for lacking runs, the letter
        of each stand-in, and a question mark for bold type ``by_mean``."""
        kinds = [words for words in self.kinds if words and any(cell.stand_in == words for cell in cells)]
        return (
            "~" * any(cell.rounded for cell in cells)
            + "*" * any(map(self.incomplete, cells))
            + "".join(map(self.mark, kinds))
            + "?" * (is_bold and any(map(self.by_mean, cells)))
        )

    def mark(self, stand_in: str) -> str:
        """The mark of a stand-in: ``^a`` for the first."""
        return f"^{chr(ord('`') + self.kinds.index(stand_in))}"

    def best(self, column: Column, block: str) -> set[str]:
        """The rows that are statistically indistinguishable from the best number of a column in a block, or print the
        same number. Incomplete cells, and those with fewer seeds than others, are left out. Stand-ins are compared only
        with those of the same settings; a number that is compared with none is not the best of its column.
        """
        by_row = self.by_row(column, block)
        numbers = sum(cell.seeds > 0 for cell in by_row.values())
        return {row for kind in self.kinds for row in self._best(column, by_row, kind, numbers)}

    def _best(self, column: Column, by_row: Mapping[str, Cell], stand_in: str, numbers: int) -> set[str]:
        cells = {row: cell for row, cell in by_row.items() if cell.stand_in == stand_in
                 if cell.seeds and not self.incomplete(cell) and math.isfinite(cell.mean)}  # fmt: skip
        if not cells or not column.value.better or len(cells) == 1 < numbers:
            return set()
        alike = indistinguishable({row: cell.numbers for row, cell in cells.items()}, column.value.better)
        printed = {row: (cell.seeds, f"{cell.mean:.{column.value.digits}f}") for row, cell in cells.items()}
        top = printed[max(alike, key=lambda row: column.value.better * cells[row].mean)]
        return alike | {row for row, number in printed.items() if number == top}

    @property
    def seeds(self) -> list[int]:
        """The numbers of seeds of the cells with a number, ascending."""
        return sorted({cell.seeds for cell in self.cells.values() if cell.seeds})

    def best_published(self, column: Column, block: str) -> set[str]:
        """The rows with the best published number of a column in a block."""
        numbers = {row: cell.against.number for row, cell in self.by_row(column, block).items() if cell.against}
        top = max(numbers.values(), key=lambda number: column.value.better * number, default=None)
        return {row for row, number in numbers.items() if number == top}

    def of_first(self, number: int) -> Table:
        """The table of the seeds 0 to ``number`` - 1; a cell without all of them has none, nor has a stand-in."""
        seeds = [str(seed) for seed in range(number)]
        whole = replace(self, cells={key: _of_seeds(cell, seeds) for key, cell in self.cells.items() if not cell.worst})
        for column in self.columns:
            if column.worst:
                whole.add_worst(column)
        return whole

    def put_first(self, names: Sequence[str]) -> None:
        """Move these rows to the top, in this order. Raises ConfigError for a row that the table lacks."""
        for name in names:
            check_name(name, self.rows, "row")
        self.rows = (*dict.fromkeys(names), *(row for row in self.rows if row not in names))

    def forget_published(self) -> None:
        """Show the measured numbers alone."""
        self.compared, self.notation = False, self.notation.partition(", and published")[0]
        self.cells = {key: replace(cell, against=None) for key, cell in self.cells.items()}

    def add_worst(self, column: Column) -> None:
        """Fill a worst column from each row's other cells of this value under attack."""
        attacks = [other for other in self.columns
                   if other.attacked and not other.worst and other.value.name == column.value.name]  # fmt: skip
        for block in self.blocks:
            for row in self.rows:
                cells = [self.cells[key] for attack in attacks if (key := (block, row, attack.label)) in self.cells]
                if cells:
                    self.cells[block, row, column.label] = self._worst(cells, column.value)

    def _worst(self, cells: Sequence[Cell], value: Value) -> Cell:
        known = [cell for cell in cells if cell.seeds or cell.diverged]
        if not known:
            return Cell(state="-", worst=True)
        least = min(known, key=lambda cell: value.better * cell.counts_as(value))
        partial = len(known) < len(cells) or any(map(self.incomplete, cells))
        if least.diverged:
            partial = partial and least.state != DIVERGED  # nothing is worse than a model that diverged in all seeds
            return Cell(state=DIVERGED, worst=True, partial=partial, numbers=least.numbers)
        rounded = _types(cell.rounded for cell in cells if cell.seeds)
        return Cell(
            least.mean, least.sd, least.seeds, partial=partial, rounded=rounded, worst=True, numbers=least.numbers,
            runs=least.runs,
        )  # fmt: skip


RunFacts = Mapping[Hashable, Any]
"""The facts of a run that a cell needs, from ``facts``."""


def facts(runs: pd.DataFrame) -> list[RunFacts]:
    """The runs of ``records.load`` as plain rows, with the seed and ``eval_every`` as text, with whether the model is
    ``unlearned``."""
    names = ["run", "folder", "state", "error", "rounds", "rounds_done", "rounded"]
    every = runs["eval_every"].map(text) if "eval_every" in runs else ""
    more = {"seed": runs["seed"].map(text), "eval_every": every, "unlearned": unlearned(runs)}
    return [*runs[names].assign(**more).to_dict("records")]


def make_cell(
    name: str, notes: list[str], cell_runs: Sequence[RunFacts], wanted: Sequence[str], measured: Mapping[str, Measured]
) -> Cell:
    """The cell of ``cell_runs``; ``wanted`` are the seeds of a full cell. The reason for an empty cell is added to the
    ``notes``. A cell with a diverged seed has no number: the mean of the others would hide the failure. Raises
    ConfigError if a seed has two runs with a result, as counting both would be wrong.
    """
    return replace(_cell(name, notes, cell_runs, wanted, measured), runs=tuple(run["folder"] for run in cell_runs))


def _cell(
    name: str, notes: list[str], cell_runs: Sequence[RunFacts], wanted: Sequence[str], measured: Mapping[str, Measured]
) -> Cell:
    finished = [run for run in cell_runs if run["state"] == "finished"]
    diverged = [run for run in cell_runs if run["state"] == DIVERGED]
    _refuse_twins(name, [*finished, *diverged])
    values = {run["seed"]: measured[run["folder"]] for run in finished}
    numbers = {seed: value.number for seed, value in values.items() if not value.reason}
    if diverged:
        share = f" {len(diverged)}/{len(diverged) + len(finished)}" if finished else ""
        numbers |= {run["seed"]: math.nan for run in diverged}
        return Cell(state=DIVERGED + share, note=add_note(notes, diverged[0]["error"]), numbers=numbers)
    reasons = [value.reason for value in values.values() if value.reason]
    reasons += [run["error"] or "infeasible" for run in cell_runs if run["state"] == "infeasible"]
    note = add_note(notes, reasons[0]) if reasons else None
    if numbers:
        if note is None and any(run["unlearned"] for run in finished):
            note = add_note(notes, UNLEARNED)
        mean, spread = _mean_and_sd([*numbers.values()])
        rounded = _types(run["rounded"] for run in finished if isinstance(run["rounded"], str))
        partial = len(numbers) < len(wanted)
        return Cell(mean, spread, len(numbers), partial=partial, rounded=rounded, note=note, numbers=numbers)
    if reasons:
        return Cell(state="-" if values else INFEASIBLE, note=note)
    for state in ("failed", "running", "unfinished"):
        if reached := [run for run in cell_runs if run["state"] == state]:
            furthest = max(reached, key=lambda run: run["rounds_done"])
            return Cell(state=state if state == "failed" else f"{state} {_progress(furthest)}")
    return Cell(state="missing")


def _of_seeds(cell: Cell, seeds: Sequence[str]) -> Cell:
    """The cell of these seeds alone, or one without a number if it lacks one of them."""
    numbers = {seed: cell.numbers[seed] for seed in seeds if seed in cell.numbers}
    if cell.stand_in or len(numbers) < len(seeds):
        return replace(cell, mean=math.nan, sd=math.nan, seeds=0, state="missing", numbers={})
    if diverged := sum(map(math.isnan, numbers.values())):
        state = DIVERGED if diverged == len(numbers) else f"{DIVERGED} {diverged}/{len(numbers)}"
        return replace(cell, mean=math.nan, sd=math.nan, seeds=0, state=state, numbers=numbers)
    mean, spread = _mean_and_sd([*numbers.values()])
    return replace(cell, mean=mean, sd=spread, seeds=len(numbers), state="", partial=False, numbers=numbers)


def _types(names: Iterable[str]) -> str:
    """Each of the types once; empty without any."""
    return ", ".join(sorted({*names} - {""}))


def _mean_and_sd(numbers: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1); nan as soon as one number is not finite."""
    if not all(map(math.isfinite, numbers)):
        return sum(numbers), math.nan
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else math.nan


def _refuse_twins(name: str, finished: Sequence[RunFacts]) -> None:
    """Runs of one cell that share a seed differ in how often they were evaluated, or are one run in two folders."""
    seen: dict[str, RunFacts] = {}
    for run in finished:
        other = seen.setdefault(run["seed"], run)
        if other is run:
            continue
        if other["eval_every"] == run["eval_every"]:
            raise ConfigError(f"one run lies in two folders, {other['run']} and {run['run']}; remove one of them")
        raise ConfigError(
            f"seed {run['seed']} of {name} has two runs, {other['run']} and {run['run']}, which differ in eval_every; "
            f"add for example --where eval_every={other['eval_every']}"
        )


def _progress(run: RunFacts) -> str:
    """Rounds done and planned."""
    return f"{text(run['rounds_done'])}/{text(run['rounds'])}"


def add_note(notes: list[str], reason: str) -> int:
    """The number, from 1, of the footnote with this text."""
    if reason not in notes:
        notes.append(reason)
    return notes.index(reason) + 1


def stopped(name: str, cell_runs: Sequence[RunFacts]) -> list[Todo]:
    """The failed and the unfinished runs of a cell."""
    todos = []
    for state in ("failed", "running", "unfinished"):
        for run in cell_runs:
            if run["state"] == state:
                command = commands.rerun(run["folder"]) if state != "running" else ""
                what = f"{name}, seed {run['seed']}"
                if state == "failed":
                    todos.append(Todo(state, what, command, run["error"]))
                else:
                    todos.append(Todo(state, f"{what}: {_progress(run)} rounds", command))
    return todos


def references(value: Value, measured: Mapping[str, Measured]) -> list[Todo]:
    """The reference runs that measured numbers lack, as one command for all of them."""
    wanting: dict[str, str] = {}
    users = 0
    for folder, number in measured.items():
        if number.reference:
            wanting.setdefault(number.reference, folder)
            users += 1
    plural = "s" if users > 1 else ""
    command = commands.reference(list(wanting.values()))
    return [Todo("reference", f"for the {value.name} of {users} run{plural}", command)] if users else []
