"""Stand-ins: cells that are measured with other settings than the paper's, where those have no result.

A table lists its stand-ins as overrides, ``batch_size=64`` or ``scale=quick``, the most trusted first. A cell takes the
number of the first that has one, and says so; it is never counted with the cells of the paper's own settings. A cell
whose models have not learned at these settings (``runs.values.has_learned``) stands in for none, and so does a cell
of a table of other data.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.matching import Config, Index
from robustfl_bench.read.runs.values import TOO_SMALL, describe, has_learned, measurable, measure
from robustfl_bench.read.tables.claims import Key
from robustfl_bench.read.tables.filling import Filling, Overrides, key_of
from robustfl_bench.read.tables.table import SMALL, Cell, add_note
from robustfl_bench.runner.config import identity
from robustfl_bench.runner.config.names import readable

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.read.tables.described import PaperCell, PaperTable, Published

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
        measured = self._measured(self._places(overrides) if overrides else self._without_attack(cell.overrides or ()))
        return measured, None if printed is None else self._value.accuracy(printed)

    def _places(self, overrides: Overrides) -> list[int]:
        return list(self._filling.places.get(overrides, ()))

    def _without_attack(self, overrides: Overrides) -> list[int]:
        config = identity.reference(self._filling.resolved[overrides].config)
        return self._filling.index.at(matching.config(identity.of(config)))

    def _measured(self, places: list[int]) -> float:
        runs = self._runs.iloc[places]
        found = measure(self._value, runs[runs["state"] == "finished"], self._filling.references)
        numbers = [number.number for number in found.values() if not number.reason]
        return self._value.accuracy(statistics.fmean(numbers)) if numbers else math.nan


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
    alike = {name: theirs.get(name) for name in _scalars({**ours, **theirs}) if ours.get(name) != theirs.get(name)}
    alike["dataset._target_"] = theirs.get("dataset._target_")
    return any(all(held.get(name) == value for name, value in alike.items()) for held in own.index.configs)


def _scalars(names: Iterable[str]) -> list[str]:
    return [name for name in names if "." not in name and name not in _FOLLOWING]


def difference(own: Mapping[Overrides, Config], other: Mapping[Overrides, Config]) -> str:
    """How the settings of a stand-in differ from the paper's, in words: ``batch size 64 (paper: whole local sets)``."""
    changed: dict[str, tuple[str | None, str | None]] = {}
    for key, theirs in other.items():
        ours = own.get(key, {})
        for name in {**ours, **theirs}:
            if ours.get(name) != theirs.get(name) and not _follows(name):
                changed.setdefault(name, (theirs.get(name), ours.get(name)))
    return ", ".join(f"{readable(name.removesuffix('._target_'))} {_value(name, theirs)} (paper: {_value(name, ours)})"
                     for name, (theirs, ours) in changed.items())  # fmt: skip


def _follows(name: str) -> bool:
    part, _, option = name.rpartition(".")
    return bool(part) and option in _FOLLOWING


def _value(name: str, value: str | None) -> str:
    """The value of a setting; the name of a class stands for a part."""
    if value is None:
        return _WHOLE.get(name, "none")
    return value.rpartition(".")[2] if name.endswith("._target_") else value
