"""The overrides that ask for a run again, from its row in a table of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
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


def overrides(run: Mapping[Hashable, Any]) -> Sequence[str]:
    """The overrides of a row of ``records.load``; none if today's options cannot make this run."""
    try:
        return words(run)
    except ConfigError:
        return ()


def words(run: Mapping[Hashable, Any]) -> Sequence[str]:
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
    """A row with the rule and the attack that were chosen, and the settings that put others around them, see
    ``identity.rewritten``; another row as it is."""
    words = []
    if run.get("aggregator._target_") == identity.SECURE_SUM:
        run = _inner(run, "aggregator", "rule")
        words.append("secure_aggregation=true")
    if run.get("aggregator._target_") == identity.WEIGHTED:
        capped = text(run.get("aggregator.capped", False)) == "true"
        run = _inner(run, "aggregator", "rule")
        words.append(f"weighting={'capped' if capped else 'samples'}")
    if run.get("attack._target_") == identity.CLAIMING:
        samples = text(run["attack.samples"])
        run = _inner(run, "attack", "attack")
        words.append(f"claim_samples={samples}")
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
