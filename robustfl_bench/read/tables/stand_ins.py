"""Stand-ins: cells that are measured with other settings than the paper's, where those have no result.

A table lists its stand-ins as overrides, ``batch_size=64`` or ``scale=quick``, the most trusted first. A cell takes the
number of the first that has one, and says so; it is never counted with the cells of the paper's own settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.matching import Config, Index
from robustfl_bench.read.tables.filling import Filling, Overrides, key_of
from robustfl_bench.read.tables.table import add_note
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.config.names import readable

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.read.tables.described import PaperTable

_WHOLE = {"batch_size": "whole local sets"}
"""What the absence of a setting means."""
_FOLLOWING = ("num_byzantine", "num_byzantine_declared")
"""Options of rules and attacks that follow the setting of the same name."""


def filled(
    table: PaperTable, everything: pd.DataFrame, references: pd.DataFrame, index: Index, overrides: Overrides = ()
) -> Filling:
    """A table filled with runs, stand-ins included; one that is changed by ``overrides`` has none. See ``Filling``."""
    own = Filling(table, overrides, everything, references, index)
    if not overrides:
        _put_in(own)
    return own


def _put_in(own: Filling) -> None:
    """Give each cell of the table that has no result the number of its first stand-in with one, and the table those of
    its stand-ins that have runs."""
    table = own.table
    overrides = {key_of(cell): cell.overrides for cell in own.described.cells}
    for words, other in _fillings(own):
        table.stand_ins[words] = other.table
        for key, cell in table.cells.items():
            theirs = other.table.cells[key]
            if cell.ended or cell.stand_in or not theirs.ended or not (theirs.seeds or theirs.diverged):
                continue
            note = theirs.note and add_note(table.notes, other.table.notes[theirs.note - 1])
            chance = bool(theirs.against and theirs.against.chance)  # only runs know how many classes there are
            against = cell.against and replace(cell.against, chance=chance)
            table.cells[key] = replace(theirs, stand_in=words, against=against, note=note)
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
        theirs = matching.config(compose.resolve((*key, *overrides)).identity)
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
    return ", ".join(f"{_named(name)} {_value(name, theirs)} (paper: {_value(name, ours)})"
                     for name, (theirs, ours) in changed.items())  # fmt: skip


def _follows(name: str) -> bool:
    part, _, option = name.rpartition(".")
    return bool(part) and option in _FOLLOWING


def _named(name: str) -> str:
    return readable(name.removesuffix("._target_"))


def _value(name: str, value: str | None) -> str:
    """The value of a setting; the name of a class stands for a part."""
    if value is None:
        return _WHOLE.get(name, "none")
    return value.rpartition(".")[2] if name.endswith("._target_") else value
