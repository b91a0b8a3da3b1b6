"""Which runs belong to a cell of a table: those with its whole config, but for the seed. With the runs of a preset.

An option is compared by its content, not by its name, so that an alias is the same run. The frequency of evaluation is
ignored, as it changes no model.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.late import np, pd
from robustfl_bench.base.trees import flatten
from robustfl_bench.read.runs.records import leaf, mapped_once, settings, text
from robustfl_bench.read.runs.where import group_names, is_seed
from robustfl_bench.runner.config import compose, identity, options
from robustfl_bench.runner.config.identity import UNHASHED
from robustfl_bench.runner.config.words import PRESETS
from robustfl_bench.runner.store.lines import Config as Config
from robustfl_bench.runner.store.lines import canonical, present, target_of, unless_default
from robustfl_bench.train.parts import GROUPS

if TYPE_CHECKING:
    _Column = tuple[list[str], np.ndarray]
    """A setting of many runs: its distinct texts, and the place among them of every run's."""


Content = frozenset[tuple[str, str]]
"""Settings of a run, key and text."""

_KIND = ("dataset", "attack", "aggregator")

_PLAIN = re.compile(r"\+?(?P<key>[\w.]+)=(?P<value>(?:\$\{(?:(?:at_scale|rb\.share):)?|[\w/.,}\[\]-])+)")
"""An override with a value that refers to nothing but other settings."""


def config(identity: Mapping[str, Any]) -> Config:
    """The settings of a resolved identity."""
    return {key: canonical(text(leaf(value))) for key, value in flatten(identity) if _counts(key)}


def configs(runs: pd.DataFrame) -> list[Config]:
    """The settings of each of the runs, without defaults."""
    columns = _columns(runs)
    rows = zip(*(map(texts.__getitem__, places.tolist()) for texts, places in columns.values()), strict=True)
    return [dict(present(columns, row)) for row in (rows if columns else [()] * len(runs))]


def contents(runs: pd.DataFrame, groups: Sequence[str]) -> list[tuple[Content, ...]]:
    """The settings of each run as in ``configs``, split into those of each group and the others. Runs with equal parts
    share the object."""
    parts: dict[str, dict[str, _Column]] = {group: {} for group in (*groups, "")}
    for name, column in _columns(runs).items():
        parts[_group(name, groups)][name] = column
    return list(zip(*(_contents(columns, len(runs)) for columns in parts.values()), strict=True))


def _contents(columns: Mapping[str, _Column], count: int) -> list[Content]:
    """The settings in these columns of each of ``count`` runs."""
    rows = np.zeros(count, dtype=np.int64)  # the number of a run's row among the distinct ones
    for texts, places in columns.values():
        if len(texts) > 1:
            rows, _ = pd.factorize(rows * len(texts) + places)
    _, firsts = np.unique(rows, return_index=True)
    content_of = [frozenset(present(columns, [texts[places[first]] for texts, places in columns.values()]))
                  for first in firsts.tolist()]  # fmt: skip
    return [content_of[row] for row in rows.tolist()]


def content(config: Config, groups: Sequence[str]) -> tuple[Content, ...]:
    """The same of one run."""
    return tuple(frozenset((name, value) for name, value in config.items() if _group(name, groups) == group)
                 for group in (*groups, ""))  # fmt: skip


def _columns(runs: pd.DataFrame) -> dict[str, _Column]:
    """The settings that count by name; defaults are absent, as in an identity."""
    groups = group_names(runs)
    names = [name for name in settings(runs) if name not in groups and _counts(name)]
    columns = {name: mapped_once(runs[name], lambda value: canonical(text(value))) for name in names}
    return {name: _without_defaults(name, columns) for name in names}


def _without_defaults(name: str, columns: Mapping[str, _Column]) -> _Column:
    """A setting, absent where its part has the default of its class, with each distinct text once."""
    texts, places = columns[name]
    targets, target_places = columns.get(target_of(name), ([None], np.zeros_like(places)))
    places, pairs = pd.factorize(places * len(targets) + target_places)
    shown = [unless_default(name, texts[pair // len(targets)], targets[pair % len(targets)]) for pair in pairs]
    distinct = {value: place for place, value in enumerate(dict.fromkeys(shown))}
    return list(distinct), np.array([distinct[value] for value in shown], dtype=np.int64)[places]


def _group(name: str, groups: Sequence[str]) -> str:
    first = name.partition(".")[0]
    return first if first in groups else ""


class Index:
    """Runs by their settings, to look up those of a cell."""

    def __init__(self, runs: pd.DataFrame) -> None:
        self.configs = configs(runs)
        self._places = defaultdict[Content, list[int]](list)
        for place, held in enumerate(self.configs):
            self._places[frozenset(held.items())].append(place)

    def at(self, wanted: Config) -> list[int]:
        """The places of the runs that have exactly these settings."""
        return self._places.get(frozenset(wanted.items()), [])

    def alike(self, wanted: Sequence[Config]) -> Iterable[tuple[int, list[str]]]:
        """The runs that have the data set, attack and rule of a cell but belong to none, each with its differences from
        the nearest cell."""
        by_kind = defaultdict[tuple[str | None, ...], list[tuple[Content, Config]]](list)
        for cell_config in wanted:
            by_kind[_kind(cell_config)].append((frozenset(cell_config.items()), cell_config))
        for held, places in self._places.items():
            config = self.configs[places[0]]
            if others := by_kind[_kind(config)]:
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


@dataclass(frozen=True)
class Wanted:
    """A run of a preset: its overrides by key (``words``), its ``settings`` (``matching.config``) and its ``seed``."""

    words: Mapping[str, str]
    settings: Content
    seed: str


def wanted(preset: str, *overrides: str) -> Iterator[Wanted]:
    """Every run of a preset with these overrides, one after the other; ``KEY=a,b`` makes a run for each value."""
    known: dict[tuple[str, ...], Content] = {}
    default = text(options.defaults()[1]["seed"])
    for run in compose.sweep([f"+experiment={preset}", *overrides]):
        others = tuple(word for word in run if not word.startswith("seed="))
        if others not in known:
            known[others] = frozenset(config(resolved(others).identity).items())
        words = dict(word.split("=", 1) for word in run)
        yield Wanted(words, known[others], words.get("seed", default))


Sweep = Mapping[Content, set[str]]
"""The seeds of runs by their other settings."""


def sweep(preset: str, *overrides: str) -> Sweep:
    """The seeds of the runs of a preset, by their other settings. Those of the package's presets are counted once."""
    is_fixed = all(map(_is_of_package, (f"+experiment={preset}", *overrides)))
    return (_sweep_once if is_fixed else _sweep)(preset, *overrides)


def _sweep(preset: str, *overrides: str) -> Sweep:
    seeds_by_settings = defaultdict[Content, set[str]](set)
    for run in wanted(preset, *overrides):
        seeds_by_settings[run.settings].add(run.seed)
    return dict(seeds_by_settings)


_sweep_once = lru_cache(maxsize=200)(_sweep)


def resolved(words: Sequence[str]) -> compose.Resolved:
    """The run of these overrides, composed once if they name nothing but what the files of the package have, which stay
    as they are."""
    return (_resolved_once if all(map(_is_of_package, words)) else compose.resolve)(tuple(words))


_resolved_once = lru_cache(maxsize=10_000)(compose.resolve)


@cache
def _is_of_package(word: str) -> bool:
    """Whether an override sets a plain value, or chooses an option or a preset of the package."""
    if (match := _PLAIN.fullmatch(word)) is None or "_target_" in word or match["key"] in (*identity.FORMS, "allow"):
        return False
    names = options.listed(match["value"]) if match["key"] in (*GROUPS, *PRESETS) else ()
    return all(options.exists(match["key"], name) for name in names)
