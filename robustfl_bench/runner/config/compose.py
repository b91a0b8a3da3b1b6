"""From the overrides of a user to the whole config of a run, by the files of ``conf/``."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, get_args

from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.base.fields import options_of, type_of_field
from robustfl_bench.base.trees import merge
from robustfl_bench.runner.config import assumed, identity, options, presets, stored, words
from robustfl_bench.runner.config.changes import change
from robustfl_bench.runner.config.choices import check_names, chosen
from robustfl_bench.runner.config.interpolate import interpolated
from robustfl_bench.runner.config.options import HERE, Search
from robustfl_bench.runner.config.presets import PRESETS
from robustfl_bench.runner.config.targets import REQUIRED
from robustfl_bench.runner.config.words import Override
from robustfl_bench.train.parts import GROUPS, kind
from robustfl_bench.train.settings import SCALARS, Settings, Switches

_TYPES = {name: type_of_field(Settings, name) for name in SCALARS}

_SWITCHES = {name: option for name, (option, _) in options_of(Switches).items()}
"""Scalars on which other settings depend, with their options; the ranges of the others are those of a run."""

_OF_A_SWEEP = ("results_dir", "wait", "retry_failed", "dry_run")
"""Scalars that a sweep reads as a whole."""

_OF_THE_CALL = (*stored.FORMS, "allow", "origin")
"""Settings that only the command line gives."""


@dataclass(frozen=True)
class Resolved(identity.Identified):
    """A run: its ``overrides``, its whole ``config``, and the chosen option of each group."""

    overrides: tuple[str, ...]
    config: Mapping[str, Any]
    choices: Mapping[str, str]


def resolve(
    overrides: Sequence[str], search: Search = HERE, parts: Mapping[str, Any] = MappingProxyType({})
) -> Resolved:
    """The run of ``robustfl-bench OVERRIDES``; ``parts`` replaces the content of groups. Raises ConfigError for what
    does not exist or cannot be read."""
    composed = _composed(words.overrides(overrides), search)
    return Resolved(tuple(overrides), _resolved({**composed.config, **parts}), composed.choices)


def shown(overrides: Sequence[str], search: Search = HERE, resolve: bool = False) -> dict[str, Any]:
    """The config of ``robustfl-bench OVERRIDES``, with interpolations as written unless it is resolved. As nothing is
    built of it then, ``rerun=FOLDER`` needs no ``allow``. Raises ConfigError."""
    config = _composed(words.overrides(overrides), search, trusted=not resolve).config
    return _resolved(config) if resolve else config


def out_of_range(config: Mapping[str, Any]) -> list[str]:
    """A phrase for each scalar of a whole config that is out of range."""
    return Settings(**{name: config[name] for name in SCALARS}).errors()


def sweep(overrides: Sequence[str], search: Search = HERE) -> list[tuple[str, ...]]:
    """The runs of ``robustfl-bench -m OVERRIDES``, each as its own overrides, in Hydra's order."""
    axes = {key: [f"{key}={value}" for value in values] for key, values in swept(overrides, search).items()}
    for one in words.overrides(overrides):
        axes[one.target] = [one.text] if one.written is None else [f"{one.target}={value}" for value in one.values]
    return list(itertools.product(*axes.values()))


def swept(overrides: Sequence[str], search: Search = HERE) -> dict[str, list[str]]:
    """The settings swept by the presets among the overrides, with their values."""
    composed = _composed(_fixed(overrides), search)
    return {
        key: words.override(f"{key}={interpolated(value, composed.config)}").values
        for key, value in composed.swept.items()
    }


def shared(overrides: Sequence[str], search: Search = HERE) -> dict[str, Any]:
    """The scalars of a sweep as a whole, such as ``results_dir``. Raises ConfigError for what is wrong with all of its
    runs, and for an option or a run folder among its values that does not exist."""
    fixed = _fixed(overrides)
    config = _composed(fixed, search).config
    for one in words.overrides(overrides):
        for each in (words.override(f"{one.target}={value}") for value in one.values if len(one.values) > 1):
            if each.key in stored.FORMS:
                stored.base([*fixed, each])
            elif each.key in GROUPS or each.root in PRESETS:
                check_names(each, search)
    for name in SCALARS:
        if not options.refers(config[name]):
            _typed(name, config[name])
    return {name: _typed(name, interpolated(config[name], config)) for name in _OF_A_SWEEP}


def _fixed(overrides: Sequence[str]) -> list[Override]:
    """The overrides that are the same for all runs of a sweep."""
    return [one for one in words.overrides(overrides) if not one.is_swept]


def _resolved(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without interpolations, its scalars converted to their types."""
    typed = {name: _typed(name, config[name]) for name in SCALARS if not options.refers(config[name])}
    whole = {**config, **typed}
    try:
        whole[assumed.NAME] = _assumed(whole)
        resolved = {key: interpolated(value, whole) for key, value in whole.items()}
    except RecursionError:
        raise ConfigError("settings refer to each other in a circle") from None
    scalars = {name: _typed(name, resolved[name]) for name in SCALARS}
    for name, option in _SWITCHES.items():
        if not option.allows(scalars[name]):
            raise ConfigError(f"{name} must be {option.allowed}, got {scalars[name]!r}")
    return resolved | scalars


def _assumed(config: Mapping[str, Any]) -> int:
    """The number of attackers that the server assumes in a round."""
    given = config[assumed.NAME]
    declared = None if given == assumed.DEFAULT else _typed(assumed.NAME, interpolated(given, config))
    if isinstance(declared, int):
        return declared
    scalars = {name: _typed(name, interpolated(config[name], config)) for name in assumed.SCALARS}
    return assumed.number(declared, config, scalars)


class _Composed(NamedTuple):
    """What overrides compose: the ``config`` with interpolations as written, the option of each group, and what
    presets sweep."""

    config: dict[str, Any]
    choices: dict[str, str]
    swept: dict[str, Any]


def _composed(overrides: Sequence[Override], search: Search, trusted: bool = False) -> _Composed:
    bodies: list[Mapping[str, Any]] = []
    by_presets: dict[str, str] = {}
    for one in overrides:
        if one.root == "hydra":
            raise ConfigError(f"{one.text} is for sweeps, with -m")
        if one.root in PRESETS:
            for name in check_names(one, search):
                bodies += presets.bodies(one.key, name, search)
                by_presets |= presets.choices(one.key, name, search)
    asked = [words.override(f"{key}={name}") for key, name in by_presets.items()]
    asked += [one for one in overrides if one.place or one.key in GROUPS]
    base = stored.base(overrides, trusted)
    tree, choices = chosen(asked, base, search)
    scalars = options.defaults()[1]
    tree |= {name: scalars[name] if base is None else base.get(name, scalars[name]) for name in SCALARS}
    params: dict[str, Any] = {}
    for body in bodies:
        if given := [name for name in _OF_THE_CALL if name in body]:
            raise ConfigError(f"{given[0]} cannot stand in a preset, only on the command line")
        params |= ((body.get("hydra") or {}).get("sweeper") or {}).get("params") or {}
        tree = merge(tree, {key: value for key, value in body.items() if key != "hydra"})
    for one in overrides:
        if not (one.root in PRESETS or one.place or one.key in GROUPS or one.key in stored.FORMS):
            change(tree, one, search)
    return _Composed(_whole(tree), choices, params)


def _whole(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in the order of the schema; a group without an option is null. Raises ConfigError for settings that
    do not exist and for missing ones."""
    known = (*SCALARS, *GROUPS)
    if unknown := [key for key in tree if key not in known]:
        strange = ", ".join(f"{key!r}{near(str(key), (*known, *PRESETS))}" for key in unknown)
        raise ConfigError(f"no setting {strange}; robustfl-bench --cfg job shows all")
    if missing := [key for key in known if key not in tree and not (key in GROUPS and kind(key)[1])]:
        raise ConfigError(f"a run needs {', '.join(missing)}: only what was added with + can be taken away with ~")
    return {key: tree.get(key) or None if key in GROUPS else tree[key] for key in known}


_TRUE, _FALSE = ("y", "yes", "on", "true"), ("n", "no", "off", "false")


def _truth(value: Any) -> bool:
    """A boolean, also from a word or a whole number. Raises ValueError."""
    if isinstance(value, str):
        word = value.lower()
        return word in _TRUE or (word not in _FALSE and int(word) != 0)
    if isinstance(value, int):
        return value != 0
    raise ValueError(value)


def _typed(name: str, value: Any) -> Any:
    """The value of a scalar, converted to its type. Raises ConfigError."""
    if value == REQUIRED:
        raise ConfigError(f"{name} has no default and no value; add {name}=VALUE")
    if name == assumed.NAME:
        return assumed.read(value)
    kinds = get_args(_TYPES[name]) or (_TYPES[name],)
    if Any in kinds or (value is None and NoneType in kinds):
        return value
    kind = kinds[0]
    try:
        if kind is bool:
            return _truth(value)
        if type(value) in {int: (int, str), float: (int, float, str), str: (str, int, float, bool)}[kind]:
            return kind(value)
    except ValueError:
        pass
    raise ConfigError(f"{name} must be of type {kind.__name__}, got {value!r}")
