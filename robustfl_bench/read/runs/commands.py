"""The commands for runs that a table lacks, and the overrides that ask for a run again, from its row."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustfl_bench.base import trusted
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import flatten
from robustfl_bench.read.runs.records import leaf, text
from robustfl_bench.runner.config import compose, identity, options, targets
from robustfl_bench.runner.config.options import Nested
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import DEFINING

_ABSENT = text(math.nan)
_TARGET = "._target_"


def overrides_of(run: Mapping[Hashable, Any]) -> Sequence[str]:
    """The overrides of a row of ``records.load``; none if today's options cannot make this run."""
    try:
        return words_of(run)
    except ConfigError:
        return ()


def words_of(run: Mapping[Hashable, Any]) -> Sequence[str]:
    """The same; raises ConfigError if today's options cannot make this run, or if it names a package that is not
    ``trusted``."""
    with trusted.only():
        try:
            resolved = _resolved(run)
        except ConfigError:
            raise
        except (KeyError, RecursionError, TypeError, ValueError) as error:  # a file can hold anything
            raise ConfigError(f"its settings are damaged: {type(error).__name__} {error}") from None
        targets.check_stored(resolved.config, trusted.packages(), f"run {run['run_id']}")
    if resolved.run_id != run["run_id"]:
        raise ConfigError("its settings make another run")
    return resolved.overrides


def _resolved(run: Mapping[Hashable, Any]) -> compose.Resolved:
    own, around = _unwrapped({str(key): value for key, value in run.items()})
    values = {key: written for key, value in _placed(own).items() if (written := text(value)) != _ABSENT}
    groups, scalars = options.defaults()
    usual = {name: text(leaf(value)) for name, value in {**groups, **scalars}.items() if name in DEFINING}
    words = [f"{name}={values[name]}" for name in usual if values.get(name, usual[name]) != usual[name]]
    for group in (group for group in GROUPS if group in values):
        words += _inner_options(group, values)
    composed = {key: text(leaf(value)) for key, value in flatten(compose.resolve(words).config)}
    words += [
        f"{'' if key in composed else '+'}{key}={value}"
        for key, value in values.items()
        if "." in key and not key.endswith(_TARGET) and value != composed.get(key, "null")
    ]
    return compose.resolve([*words, *around])


def _unwrapped(run: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """A row with the rule, the attack and the model that were chosen, and the settings that put others around them, see
    ``identity.rewritten``; another row as it is."""
    words = []
    for group in ("aggregator", "attack", "model"):
        while (around := identity.AROUND.get(str(run.get(f"{group}{_TARGET}")))) is not None:
            value = around.value(run.get(f"{group}.{around.option}"))
            words.append(f"{around.setting}={text(value)}")
            run = _inner(run, group, around.within)
    return run, words


def _inner(run: Mapping[str, Any], group: str, field: str) -> Mapping[str, Any]:
    """A row whose option of a group is the one that this option holds as ``field``."""
    outer, inner = f"{group}.", f"{group}.{field}."
    others = {key: value for key, value in run.items() if not key.startswith(outer)}
    return others | {outer + key.removeprefix(inner): run[key] for key in run if key.startswith(inner)}


def _placed(run: Mapping[str, Any]) -> dict[str, Any]:
    """A row in which each pre-aggregation has its own key, as in a config; see ``identity.chained``."""
    group = "pre_aggregation"
    outer = f"{group}."
    others = {key: value for key, value in run.items() if not key.startswith(outer)}
    own = {key.removeprefix(outer): value for key, value in run.items() if key.startswith(outer)}
    names = options.listed(text(run.get(group)))
    if len(names) == 1:
        return others | {f"{outer}{names[0]}.{key}": value for key, value in own.items()}
    steps = zip(names, json.loads(str(own["steps"])), strict=True)
    return others | {f"{outer}{name}.{key}": leaf(value) for name, step in steps for key, value in flatten(step)}


def _inner_options(group: str, values: Mapping[str, str]) -> Iterator[str]:
    """The overrides for options inside that of a group which are other ones than its file chooses."""
    replaced: Nested = ()
    seen = set[str]()
    while new := [item for item in options.inside(group, values[group], replaced).items() if item[0] not in seen]:
        place, usual = new[0]
        seen.add(place)
        inner_group, _, path = place.partition("@")
        target = values.get(f"{group}.{path}{_TARGET}")
        if usual is None or target in (None, _target(inner_group, usual)):
            continue
        if option := next((name for name in options.names(inner_group) if _target(inner_group, name) == target), None):
            replaced = (*replaced, (place, option))
            yield f"{inner_group}@{group}.{path}={option}"


def _target(group: str, option: str) -> str | None:
    return options.option(group, option).get("_target_")


_RESULTS = "results"


def rerun(folder: str, changes: Iterable[str] = (), seeds: Sequence[str] = ()) -> str:
    """The command that runs the config of a run folder again, with some settings changed; empty without a folder."""
    if not _is_folder(folder):
        return ""
    changes = list(changes)
    words = [f"rerun={folder}", *changes, *_allowance("rerun", [folder], changes), *_beside(folder)]
    return _command([*words, *_seeds(seeds)], sweep=len(seeds) > 1)


def again(run: Mapping[Hashable, Any]) -> str:
    """The command for a row of ``records.load``, from its settings; empty if these make another run with today's
    options."""
    words = overrides_of(run)
    return _command(words, sweep=False) if words else ""


def reference(folders: Sequence[str]) -> str:
    """The command for the runs that the recalls of these runs are compared with; empty without folders."""
    known = [folder for folder in folders if _is_folder(folder)]
    if not known:
        return ""
    words = [f"reference={','.join(known)}", *_allowance("reference", known), *_beside(known[0])]
    return _command(words, sweep=len(known) > 1)


def run(overrides: Iterable[str], seeds: Sequence[str] = (), results_dir: str = _RESULTS) -> str:
    """The command for the runs with these overrides."""
    return _command([*overrides, *_results(results_dir), *_seeds(seeds)], sweep=len(seeds) > 1)


def preset(name: str, overrides: Iterable[str] = (), results_dir: str = _RESULTS) -> str:
    """The command for all runs of a preset."""
    return _command([f"+experiment={name}", *overrides, *_results(results_dir)], sweep=True)


def _command(words: Sequence[str], sweep: bool) -> str:
    return shlex.join(["robustfl-bench", *(["-m"] if sweep else []), *words])


def _allowance(form: str, folders: Iterable[str], changes: Iterable[str] = ()) -> list[str]:
    try:
        return identity.allowance(form, folders, changes)
    except ConfigError:  # of a damaged config
        return []


def _seeds(seeds: Sequence[str]) -> list[str]:
    return [f"seed={','.join(seeds)}"] if seeds else []


def _is_folder(folder: str) -> bool:
    """Whether a run has a folder; runs from a CSV have none."""
    return Path(folder).is_dir()


def _beside(folder: str) -> list[str]:
    """The override, if any, that puts a run into the results folder of this run folder."""
    return _results(str(Path(folder).parent.parent))


def _results(folder: str) -> list[str]:
    return [f"results_dir={folder}"] if folder != _RESULTS else []
