"""From the overrides of a user to the whole config of a run, by the files of ``conf/``."""

import itertools
import marshal
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args

from robustfl_bench.base.errors import ConfigError, each_of, near
from robustfl_bench.base.fields import options_of, type_of_field
from robustfl_bench.base.trees import flatten, merge
from robustfl_bench.parts.adapters import signatures
from robustfl_bench.runner.config import assumed, beyond, identity, options, outside, targets, words
from robustfl_bench.runner.config.beyond import NOTHING, Beyond, Composed, ForHydra
from robustfl_bench.runner.config.choices import bodies_of, change, check_names, chosen, chosen_by, labels
from robustfl_bench.runner.config.interpolate import composed_here, interpolated, is_read_in
from robustfl_bench.runner.config.options import HERE, Search
from robustfl_bench.runner.config.targets import REQUIRED
from robustfl_bench.runner.config.words import OWN, PRESETS, Override
from robustfl_bench.train.parts import GROUPS, kind
from robustfl_bench.train.settings import SCALARS, Settings, Switches

_TYPES = {name: get_args(kind) or (kind,) for name in SCALARS for kind in [type_of_field(Settings, name)]}
"""The types that the value of each scalar can have."""

_SWITCHES = {name: option for name, (option, _) in options_of(Switches).items()}
"""Scalars on which other settings depend, with their options; the ranges of the others are those of a run."""

_OF_A_SWEEP = ("results_dir", "wait", "retry_failed", "dry_run")
"""Scalars that a sweep reads as a whole."""

_FREE = ("seed", "lr")
"""Scalars on which other settings depend only where these refer to them. Sweeps have many values of them."""

_OF_THE_CALL = (*identity.FORMS, "allow", "origin")
"""Settings that only the command line gives."""


@dataclass(frozen=True)
class Resolved(identity.Identified):
    """A run: its ``overrides``, its whole ``config``, and the chosen option of each group."""

    overrides: tuple[str, ...]
    config: Mapping[str, Any]
    choices: Mapping[str, str]


def resolve(
    overrides: Sequence[str],
    search: Search = HERE,
    parts: Mapping[str, Any] = MappingProxyType({}),
    hydra: ForHydra = NOTHING,
    base: Mapping[str, Any] | None = None,
) -> Resolved:
    """The run of ``robustfl-bench OVERRIDES``; ``parts`` replaces the content of groups, ``base`` the defaults.

    Raises ConfigError for what does not exist or cannot be read.
    """
    given = words.overrides(overrides)
    if not parts and base is None and not hydra.composes and (twin := _twin(given, search)) is not None:
        return Resolved(tuple(overrides), *twin)

    def finish(composed: Composed) -> Resolved:
        if composed.unobeyed:
            raise ConfigError("; ".join(composed.unobeyed))
        is_resolved = base is not None and not any("${" in str(value) for _, value in flatten(base))
        if is_resolved and not any(one.key == assumed.NAME for one in given):
            _check_unresolved(composed.config)
        renamed = {one.root: outside.label_of(str(one.value)) for one in given if one.key == f"{one.root}._target_"}
        return Resolved(tuple(overrides), _resolved({**composed.config, **parts}), {**composed.choices, **renamed})

    return _finished(given, search, hydra, finish, base=base)


def shown(
    overrides: Sequence[str], search: Search = HERE, resolve: bool = False, hydra: ForHydra = NOTHING
) -> dict[str, Any]:
    """The config of ``robustfl-bench OVERRIDES``, with interpolations as written unless it is resolved. As nothing is
    built of it, ``rerun=FOLDER`` needs no ``allow``. Raises ConfigError."""

    def finish(composed: Composed) -> dict[str, Any]:
        if not resolve:
            return composed.config
        others = {key: value for key, value in composed.config.items() if key not in _KNOWN}
        return _resolved(composed.config) | {key: interpolated(value, composed.config) for key, value in others.items()}

    return _finished(words.overrides(overrides), search, hydra, finish, trusted=not resolve)


def out_of_range(config: Mapping[str, Any]) -> list[str]:
    """A phrase for each scalar of a whole config that is out of range."""
    return Settings(**{name: config[name] for name in SCALARS}).errors()


def sweep(overrides: Sequence[str], search: Search = HERE, hydra: ForHydra = NOTHING) -> list[tuple[str, ...]]:
    """The runs of ``robustfl-bench -m OVERRIDES``, each as its own overrides, in Hydra's order."""
    axes = {key: [f"{key}={value}" for value in values] for key, values in swept(overrides, search, hydra).items()}
    for one in words.overrides(overrides):
        axes[one.target] = [one.text] if one.written is None else [f"{one.target}={value}" for value in one.values]
    return list(itertools.product(*axes.values()))


def swept(overrides: Sequence[str], search: Search = HERE, hydra: ForHydra = NOTHING) -> dict[str, list[str]]:
    """The settings swept by the presets among the overrides, with their values."""

    def finish(composed: Composed) -> dict[str, list[str]]:
        return {
            key: words.override(f"{key}={interpolated(value, composed.config)}").values
            for key, value in composed.swept.items()
        }

    return _finished(_fixed(overrides), search, hydra, finish)


def shared(overrides: Sequence[str], search: Search = HERE, hydra: ForHydra = NOTHING) -> dict[str, Any]:
    """The scalars of a sweep as a whole, such as ``results_dir``. Raises ConfigError for what is wrong with all of its
    runs, and for an option or a run folder among its values that does not exist."""
    fixed = _fixed(overrides)

    def finish(composed: Composed) -> dict[str, Any]:
        config = composed.config
        for name in SCALARS:
            if not options.refers(config[name]):
                _typed(name, config[name])
        return {name: _typed(name, interpolated(config[name], config)) for name in _OF_A_SWEEP}

    whole = _finished(fixed, search, hydra, finish)
    for one in words.overrides(overrides):
        for each in (words.override(f"{one.target}={value}") for value in one.values if len(one.values) > 1):
            if each.key in identity.FORMS:
                identity.base_of([*fixed, each])
            elif not hydra.composes and (each.key in GROUPS or each.root in PRESETS):
                with suppress(Beyond):
                    check_names(each, search)
    return whole


def _twin(given: Sequence[Override], search: Search) -> tuple[dict[str, Any], Mapping[str, str]] | None:
    """The config and the choices of a run that differs by its _FREE scalars from others, which are composed once; None
    where it does by more, or that is not known."""
    own = {one.key: one for one in given if one.key in _FREE and not (one.sign or one.place or one.is_swept)}
    rest = [one for one in given if own.get(one.key) is not one]
    if not own or any(one.root in (*identity.FORMS, *own) or one.key.endswith("._target_") for one in rest):
        return None
    try:
        values = {name: one.value for name, one in own.items()}
    except Beyond:
        return None
    if any(map(options.refers, values.values())):
        return None
    if (common := _common(tuple(one.text for one in rest), tuple(own), search)) is None:
        return None
    packed, choices = common
    return marshal.loads(packed) | {name: _typed(name, value) for name, value in values.items()}, choices


@lru_cache(maxsize=10_000)
def _common(
    overrides: tuple[str, ...], free: tuple[str, ...], search: Search
) -> tuple[bytes, Mapping[str, str]] | None:
    """The choices and the resolved config of all runs with these overrides, whatever the ``free`` scalars are; packed,
    as nobody may change that of another.

    None if other settings refer to these scalars, or to what can change while a sweep goes on, or if parts are from
    outside.
    """
    try:
        config, choices, *_ = _composed([words.override(text) for text in overrides], search)
        if is_read_in(config, free) or targets.packages_of(config) or set(config) - {*_KNOWN}:
            return None
        return marshal.dumps(_resolved(config)), choices
    except (ConfigError, Beyond, ValueError):  # each run says it; of ValueError: it holds what cannot be packed
        return None


_Made = TypeVar("_Made")


def _finished(
    overrides: Sequence[Override],
    search: Search,
    hydra: ForHydra,
    finish: Callable[[Composed], _Made],
    trusted: bool = False,
    base: Mapping[str, Any] | None = None,
) -> _Made:
    """What ``finish`` makes of the config that overrides compose here, or Hydra where that raises Beyond."""
    if not hydra.composes:
        try:
            with composed_here(hydra.number is not None):
                return finish(_composed(overrides, search, trusted, base))
        except Beyond as error:
            if hydra.is_left:
                raise
            if base is not None:
                raise ConfigError(f"{error}, which changes no config that Hydra has composed") from None
    from robustfl_bench.runner.config import by_hydra

    with by_hydra.composing(overrides, search, hydra) as found:
        config = _whole(found.config, found.groups)
        return finish(found._replace(config=config, choices=labels(found.choices, config)))


def _fixed(overrides: Sequence[str]) -> list[Override]:
    """The overrides that are the same for all runs of a sweep."""
    return [one for one in words.overrides(overrides) if not one.is_swept]


def _resolved(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without interpolations and keys of users, its scalars converted to their types."""
    typed = each_of({name: config[name] for name in SCALARS if not options.refers(config[name])}, _typed)
    whole = {**config, **typed, **{group: outside.whole(group, config[group]) for group in GROUPS}}
    try:
        whole[assumed.NAME] = _assumed(whole)
        resolved = {key: interpolated(whole[key], whole) for key in _KNOWN}
    except RecursionError:
        raise ConfigError("settings refer to each other in a circle") from None
    scalars = each_of({name: resolved[name] for name in SCALARS}, _typed)
    for name, option in _SWITCHES.items():
        if not option.allows(scalars[name]):
            raise ConfigError(f"{name} must be {option.allowed}, got {scalars[name]!r}")
    return resolved | scalars


def _check_unresolved(config: Mapping[str, Any]) -> None:
    """Raise ConfigError if parts hold an f that is another one here: OmegaConf, which resolved it, knows no rounds."""
    given, parts = config[assumed.NAME], {group: config[group] for group in GROUPS if config[group]}
    is_number = type(given) is int
    capped = is_number and config["weighting"] == "capped"
    held = any(key.rpartition(".")[2] in signatures.DECLARED and value == given for key, value in flatten(parts))
    if (is_number and given != config["num_byzantine"]) or not (held or capped):
        return
    usual = _resolved({**config, assumed.NAME: assumed.DEFAULT} if is_number else config)[assumed.NAME]
    if given != usual:
        raise ConfigError(
            f"{assumed.NAME}={words.written(given)} of a resolved config may mean f={usual} here: give the config "
            f'before OmegaConf resolves it, or the word "{assumed.NAME}=..." with it'
        )


def _assumed(config: Mapping[str, Any]) -> int:
    """The number of attackers that the server assumes in a round."""
    given = config[assumed.NAME]
    declared = None if given == assumed.DEFAULT else _typed(assumed.NAME, interpolated(given, config))
    if isinstance(declared, int):
        return declared
    scalars = {name: _typed(name, interpolated(config[name], config)) for name in assumed.SCALARS}
    return assumed.number(declared, config, scalars)


def _composed(
    overrides: Sequence[Override], search: Search, trusted: bool = False, base: Mapping[str, Any] | None = None
) -> Composed:
    """What this package composes. Raises ConfigError, and Beyond for what is not read here."""
    bodies: list[Mapping[str, Any]] = []
    by_presets: dict[str, str] = {}
    for one in overrides:
        beyond.check_single(one.key, one.text)
        if one.root == "hydra" or (one.root not in _ROOTS and beyond.is_group(one.key, search)):
            raise Beyond(f"{one.text} is for Hydra")
        if one.root in PRESETS:
            for name in check_names(one, search):
                bodies += bodies_of(one.key, name, search)
                by_presets |= chosen_by(one.key, name, search)
    asked = [words.override(f"{key}={name}") for key, name in by_presets.items()]
    asked += [one for one in overrides if one.place or one.key in GROUPS]
    base = identity.base_of(overrides, trusted) if base is None else base
    tree, choices = chosen(asked, base, search)
    scalars = options.defaults()[1]
    tree |= {name: scalars[name] if base is None else base.get(name, scalars[name]) for name in SCALARS}
    tree |= {key: value for key, value in (base or {}).items() if key not in _READ}
    params: dict[str, Any] = {}
    for body in bodies:
        if given := [name for name in _OF_THE_CALL if name in body]:
            raise ConfigError(f"{given[0]} cannot stand in a preset, only on the command line")
        params |= ((body.get("hydra") or {}).get("sweeper") or {}).get("params") or {}
        tree = merge(tree, {key: value for key, value in body.items() if key != "hydra"})
    for one in overrides:
        if not (one.root in PRESETS or one.place or one.key in GROUPS or one.key in identity.FORMS):
            change(tree, one, one.key, one.value, search)
    return Composed(_whole(tree), choices, params)


_KNOWN = (*SCALARS, *GROUPS)

_READ = frozenset((*_KNOWN, *identity.FORMS))

_ROOTS = _READ | {*PRESETS, OWN}
"""The first words of keys that are read here."""


def _whole(tree: Mapping[str, Any], own: Iterable[str] = ()) -> dict[str, Any]:
    """The settings in the order of the schema, and then keys of users; a group without an option is null.

    Keys of users are at OWN, in a group of theirs among ``own``, or such that a setting refers to them. Raises
    ConfigError for others and for missing settings.
    """
    others = [key for key in tree if key not in _READ]
    if unknown := [key for key in others if key not in (OWN, *own) and not _is_read(str(key), tree)]:
        strange = ", ".join(f"{key!r}{near(str(key), (*_KNOWN, *PRESETS))}" for key in unknown)
        raise ConfigError(
            f"no setting {strange}; robustfl-bench --cfg job shows all, and +{OWN}.{unknown[0]} is a key of your own"
        )
    if missing := [key for key in _KNOWN if key not in tree and not (key in GROUPS and kind(key)[1])]:
        raise ConfigError(f"a run needs {', '.join(missing)}: only what was added with + can be taken away with ~")
    settings = {key: tree.get(key) or None if key in GROUPS else tree[key] for key in _KNOWN}
    return settings | {key: tree[key] for key in others}


def _is_read(key: str, tree: Mapping[str, Any]) -> bool:
    """Whether a setting refers to a key of the user."""
    reference = re.compile(rf"\$\{{\s*(?:oc\.[a-z.]+:)?{re.escape(key)}\s*[.\[,}}]")
    leaves = (item for name, item in flatten(tree) if name.partition(".")[0] != key)
    return any(reference.search(str(item)) is not None for item in leaves if "${" in str(item))


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
    kinds = _TYPES[name]
    kind = kinds[0]
    if type(value) is kind or kind is Any or (value is None and NoneType in kinds):
        return value
    try:
        if kind is bool:
            return _truth(value)
        if type(value) in {int: (int, str), float: (int, float, str), str: (str, int, float, bool)}[kind]:
            return kind(value)
    except ValueError:
        pass
    advice = ""
    if name == "num_byzantine" and type(value) is float and 0 < value < 1:
        count = f"num_clients=100 num_byzantine={round(100 * value)} byzantine_placement=replace"
        advice = f": it is a number of clients; {value:.0%} of 100 clients are {count}"
    raise ConfigError(f"{name} must be of type {kind.__name__}, got {value!r}{advice}")
