"""The cells of a paper's table, filled with the runs that have the settings of a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.matching import Index
from robustfl_bench.read.runs.records import ENDED, text
from robustfl_bench.read.runs.values import OF_ROUNDS, Measured, Value, constant_accuracies, describe, measure
from robustfl_bench.read.runs.where import natural, require_comparable
from robustfl_bench.read.tables.agreement import points
from robustfl_bench.read.tables.claims import Key
from robustfl_bench.read.tables.table import (
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
)
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.config.compose import Resolved

if TYPE_CHECKING:
    from robustfl_bench.read.tables.described import PaperCell, PaperTable, Published

Overrides = tuple[str, ...]


class Filling:
    """A paper's table (``described``), changed by ``overrides``, and the runs that it is filled with.

    ``table`` has the cells, ``runs`` are those of all cells. By the overrides of a cell, ``resolved`` has its config,
    ``wanted`` its settings, and ``places`` the positions of its runs in ``everything``. ``seeds`` are those of any
    cell; ``values`` are those of the columns, and ``measured`` has their numbers by folder. ``references`` are the runs
    that numbers may need beside their own. ``standing_in`` are the positions of runs of stand-ins that the table shows.

    Raises ConfigError for runs that would be mixed although they differ and for overrides that no cell can have.
    """

    def __init__(
        self, described: PaperTable, overrides: Sequence[str], everything: pd.DataFrame, references: pd.DataFrame,
        index: Index,
    ) -> None:  # fmt: skip
        self.described, self.overrides, self.index = described, tuple(overrides), index
        self.everything, self.references = everything, references
        self.resolved, impossible = resolve(described, overrides)
        if overrides and impossible and not self.resolved:
            raise next(iter(impossible.values()))
        self.wanted = {key: matching.config(run.identity) for key, run in self.resolved.items()}
        self.places = {key: index.at(config) for key, config in self.wanted.items()}
        matched = sorted({place for places in self.places.values() for place in places})
        self.runs = everything.iloc[matched]
        self._facts: dict[int, RunFacts] = dict(zip(matched, facts(self.runs), strict=True))
        self._require_one_frequency()
        self.table = _empty(described, everything)
        self.values = {column.value.name: column.value for column in self.table.columns}
        finished = self.runs[self.runs["state"] == "finished"]
        self.measured = {name: measure(value, finished, references) for name, value in self.values.items()}
        self.standing_in = set[int]()
        self.seeds = sorted(set(self.runs["seed"].map(text)), key=natural)
        self._fill(impossible)

    def runs_at(self, overrides: Overrides) -> list[RunFacts]:
        """The runs of the cells with these overrides."""
        return [self._facts[place] for place in self.places.get(overrides, [])]

    def _fill(self, impossible: Mapping[Overrides, ConfigError]) -> None:
        table, described = self.table, self.described
        for cell in described.cells:
            if cell.overrides is not None:
                value = table.column(cell.column.label).value
                made = self._cell(cell, self.measured[value.name], impossible)
                table.cells[key_of(cell)] = replace(made, against=self._against(cell, value), key=_printed_key(cell))
        for column in table.columns:
            if column.worst:
                table.add_worst(column)
                for cell in described.cells:
                    if cell.column.label == column.label:
                        table.cells[key_of(cell)] = self._worst(cell)
        table.cells = {key_of(cell): table.cells[key_of(cell)] for cell in described.cells}

    def _cell(
        self, cell: PaperCell, measured: Mapping[str, Measured], impossible: Mapping[Overrides, ConfigError]
    ) -> Cell:
        """The cell of its runs, or a cell with the reason why no run can exist."""
        if error := impossible.get(cell.overrides or ()):
            return Cell(state=NOT_YET, note=add_note(self.table.notes, f"not in this version: {error}"))
        if not (runs := self.runs_at(cell.overrides or ())):
            return Cell(state="missing")
        return make_cell(name_of(cell), self.table.notes, runs, self.seeds, measured)

    def _against(self, cell: PaperCell, value: Value) -> Against | None:
        """What the paper prints for a cell."""
        if cell.published is None:
            return None
        number = cell.published.number
        margin = POINTS * points(value)
        constant = self._is_constant(cell, cell.published, value)
        return Against(
            cell.published.text, number, number, margin, cell.published.spread, self.described.seeds, constant=constant
        )

    def _is_constant(self, cell: PaperCell, printed: Published, value: Value) -> bool:
        """Whether a model that answers one class for every test sample has the printed number, to its last digit."""
        if (resolved := self.resolved.get(cell.overrides or ())) is None:
            return False
        dataset = str(resolved.config["dataset"]["_target_"]).rpartition(".")[2]
        numbers = map(value.of_accuracy, constant_accuracies(dataset))
        return any(f"{number:.{printed.digits}f}" == printed.mean for number in numbers)

    def _worst(self, cell: PaperCell) -> Cell:
        """A worst case with what it is compared with: the worst of the published numbers under attack, printed or
        not."""
        result = self.table
        value = result.column(cell.column.label).value
        worst, against = result.cells[key_of(cell)], self._against(cell, value)
        if cell.published is None or against is None:
            return replace(worst, key=_printed_key(cell))
        attacks = [column.label for column in result.columns if column.attacked and column.value.name == value.name]
        rivals = {label: other.against for label in attacks
                  if (other := result.cells.get((cell.block, cell.row, label))) and other.against}  # fmt: skip
        label, least = min(rivals.items(), key=lambda item: value.better * item[1].reference)
        if least.reference != against.reference:
            note = add_note(
                result.notes,
                f"{name_of(cell)} is printed as {cell.published.mean}; compared is the worst of its printed numbers "
                f"under attack, {least.reference:.{value.digits}f} ({label})",
            )
            against = replace(against, reference=least.reference, note=note)
        against = replace(against, sd=least.sd, constant=least.constant)
        return replace(worst, against=against, key=_printed_key(cell))

    def _require_one_frequency(self) -> None:
        """Where more than the last evaluated round counts, raise ConfigError for runs evaluated more and less often."""
        table = self.described
        if all(table.value(column.metric) not in OF_ROUNDS for column in table.columns):
            return
        rows = [(f"{cell.block} / {cell.row}", cell.column.label, place) for cell in table.cells
                if cell.overrides is not None for place in self.places.get(cell.overrides, [])]  # fmt: skip
        if not rows:
            return
        matched = self.everything[["state", "seed", "eval_every"]].iloc[[place for *_, place in rows]]
        matched = matched.assign(row=[row for row, *_ in rows], column=[column for _, column, _ in rows])
        ended = matched[matched["state"].isin(ENDED)]
        if len(ended):
            require_comparable(ended, ("row", "column"))


def resolve(
    table: PaperTable, overrides: Sequence[str]
) -> tuple[dict[Overrides, Resolved], dict[Overrides, ConfigError]]:
    """The config of every cell by its overrides; where this version lacks an option, the error that says so. Raises
    ConfigError for overrides that are out of range, and for a seed, which no cell has."""
    resolved, impossible = {}, {}
    for cell in table.cells:
        if cell.overrides is not None and cell.overrides not in resolved:
            try:
                resolved[cell.overrides] = matching.resolved((*cell.overrides, *overrides))
            except ConfigError as error:
                impossible[cell.overrides] = error
    if overrides and resolved:
        if any(override.partition("=")[0] == "seed" for override in overrides):
            raise ConfigError("a cell has the runs of all seeds; choose runs by --where seed=0")
        if errors := compose.out_of_range(next(iter(resolved.values())).config):
            raise ConfigError("; ".join(errors))
    return resolved, impossible


def key_of(cell: PaperCell) -> Key:
    """Block, row and column of a cell."""
    return cell.block, cell.row, cell.column.label


def name_of(cell: PaperCell) -> str:
    """The labels of a cell in words."""
    return " / ".join(filter(None, key_of(cell)))


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
        order_only=table.other_data,
        shows_seeds=True,
        notation=", ".join(filter(None, notation)),
    )
