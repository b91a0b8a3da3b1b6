"""Which runs belong to a cell of a table: those with the whole config of the cell, but for the seed.

An option is compared by its content, not by its name, so that an alias is the same run. The frequency of evaluation is
ignored, as it changes no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from robustfl_bench.base import public
from robustfl_bench.base.trees import flatten
from robustfl_bench.config import identity
from robustfl_bench.config.identity import UNHASHED
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.runs.records import FACTS, leaf, mapped, settings, text
from robustfl_bench.runs.where import canonical, group_names, is_seed
from robustfl_bench.store.kept import SEAL

if TYPE_CHECKING:
    import pandas as pd

Config = Mapping[str, str]
"""The settings that define a run, as text by dotted key, without seed and ``eval_every``."""

Content = frozenset[tuple[str, str]]
"""Some of these, key and text."""

_KIND = ("dataset", "attack", "aggregator")


def config(identity: Mapping[str, Any]) -> Config:
    """The settings of a resolved identity."""
    return {key: canonical(text(leaf(value))) for key, value in flatten(identity) if _counts(key)}


def whole(identity: Mapping[str, Any]) -> Config:
    """All settings of a resolved identity, seed and ``eval_every`` included."""
    return {key: canonical(text(leaf(value))) for key, value in flatten(identity)}


def whole_of_line(line: Mapping[str, str]) -> Config:
    """The same of a kept run, a line of a CSV file by column."""
    names = [name for name, value in line.items() if value and _is_setting(name)]
    columns = {name: [canonical(line[name])] for name in names}
    return dict(_present(names, [_without_defaults(name, columns)[0] for name in names]))


def _is_setting(name: str) -> bool:
    """Whether a column of a kept run is part of its identity."""
    outside = (*FACTS, *GROUPS, *UNHASHED, "file", SEAL)
    return name not in outside and not name.startswith("last.")


def configs(runs: pd.DataFrame) -> list[Config]:
    """The settings of each of the runs, without defaults."""
    names, columns = _columns(runs)
    rows = zip(*columns, strict=True) if columns else iter([()] * len(runs))
    return [dict(_present(names, row)) for row in rows]


def contents(runs: pd.DataFrame, groups: Sequence[str]) -> list[tuple[Content, ...]]:
    """The settings of each run as in ``configs``, split into those of each group and the others. Runs with equal parts
    share the object."""
    parts: dict[str, tuple[list[str], list[list[str]]]] = {group: ([], []) for group in (*groups, "")}
    for name, column in zip(*_columns(runs), strict=True):
        of = parts[_group(name, groups)]
        of[0].append(name)
        of[1].append(column)
    by_group = []
    for names, columns in parts.values():
        by_row: dict[tuple[str, ...], Content] = {}
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(runs)
        for row in set(rows):
            by_row[row] = frozenset(_present(names, row))
        by_group.append([by_row[row] for row in rows])
    return list(zip(*by_group, strict=True))


def content(config: Config, groups: Sequence[str]) -> tuple[Content, ...]:
    """The same of one run."""
    return tuple(frozenset((name, value) for name, value in config.items() if _group(name, groups) == group)
                 for group in (*groups, ""))  # fmt: skip


def _columns(runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """The names of the settings that count, and their values as text; defaults are absent, as in an identity."""
    groups = group_names(runs)
    names = [name for name in settings(runs) if name not in groups and _counts(name)]
    columns = {name: mapped(runs[name], lambda value: canonical(text(value))) for name in names}
    return names, [_without_defaults(name, columns) for name in names]


def _without_defaults(name: str, columns: Mapping[str, list[str]]) -> list[str]:
    """The values of a setting, absent where its part has the default of its class; see ``identity.canonical``."""
    part, _, option = name.rpartition(".")
    values, targets = columns[name], columns.get(f"{part}._target_")
    if targets is None:
        return ["absent" if value == "null" else value for value in values]
    usual = {target: _default(target, option) for target in set(targets)}
    return ["absent" if value == usual[target] else value for value, target in zip(values, targets, strict=True)]


def _default(target: str, option: str) -> str:
    return canonical(text(leaf(identity.canonical(public.defaults(target).get(option)))))


def _present(names: Sequence[str], row: Sequence[str]) -> Iterable[tuple[str, str]]:
    return ((name, value) for name, value in zip(names, row, strict=True) if value != "absent")


def _group(name: str, groups: Sequence[str]) -> str:
    first = name.partition(".")[0]
    return first if first in groups else ""


class Index:
    """Runs by their settings, to look up those of a cell."""

    def __init__(self, runs: pd.DataFrame) -> None:
        self.configs = configs(runs)
        self._places: dict[Content, list[int]] = {}
        for place, held in enumerate(self.configs):
            self._places.setdefault(frozenset(held.items()), []).append(place)

    def at(self, wanted: Config) -> list[int]:
        """The places of the runs that have exactly these settings."""
        return self._places.get(frozenset(wanted.items()), [])

    def alike(self, wanted: Sequence[Config]) -> Iterable[tuple[int, list[str]]]:
        """The runs that have the data set, attack and rule of a cell but belong to none, each with its differences from
        the nearest cell."""
        by_kind: dict[tuple[str | None, ...], list[tuple[Content, Config]]] = {}
        for cell_config in wanted:
            by_kind.setdefault(_kind(cell_config), []).append((frozenset(cell_config.items()), cell_config))
        for held, places in self._places.items():
            config = self.configs[places[0]]
            if others := by_kind.get(_kind(config)):
                _, nearest = min(others, key=lambda other: len(dict(held ^ other[0])))
                if unlike := differences(config, nearest):
                    yield from ((place, unlike) for place in places)


def differences(held: Config, wanted: Config) -> list[str]:
    """The settings that keep a run from belonging to a cell, ``key=value`` as the run has them."""
    names = [name for name in wanted if held.get(name) != wanted[name]]
    names += [name for name in held if name not in wanted]
    return [f"{name}={held.get(name, 'absent')}" for name in names]


def _counts(key: str) -> bool:
    return not is_seed(key) and key not in (*UNHASHED, "eval_every")


def _kind(held: Config) -> tuple[str | None, ...]:
    return tuple(held.get(f"{group}._target_") for group in _KIND)
