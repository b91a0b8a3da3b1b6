"""From the overrides of a user to the whole config of a run, by the files of ``conf/``."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType, NoneType
from typing import Any, get_args

from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.base.trees import merge
from robustfl_bench.config import identity, options, outside
from robustfl_bench.config.interpolate import interpolated
from robustfl_bench.config.options import HERE, Search
from robustfl_bench.config.words import named, parsed, read_value, values
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.engine.settings import SCALARS, Settings

PRESETS = ("setting", "method", "threat", "experiment")
"""Groups whose options change settings of other groups; the command line adds them with ``+``."""

_TYPES = {field.name: field.type for field in fields(Settings)}


@dataclass(frozen=True)
class Resolved:
    """A run: its ``overrides``, its whole ``config``, and the chosen option of each group."""

    overrides: tuple[str, ...]
    config: Mapping[str, Any]
    choices: Mapping[str, str]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What defines the run; see ``identity.of``."""
        return identity.of(self.config)

    @cached_property
    def run_id(self) -> str:
        """The hash of the identity."""
        return identity.digest(self.identity)


def resolve(
    overrides: Sequence[str], search: Search = HERE, parts: Mapping[str, Any] = MappingProxyType({})
) -> Resolved:
    """The run of ``robustfl-bench OVERRIDES``; ``parts`` replaces the content of groups. Raises ConfigError for names
    that do not exist."""
    given = parsed(overrides)
    choices, tree, _ = _composed(given, search)
    tree |= parts
    config = {key: tree.get(key) or None if key in GROUPS else tree[key] for key in (*SCALARS, *GROUPS)}
    config |= {name: _typed(name, config[name]) for name in SCALARS if not options.refers(config[name])}
    try:
        resolved = interpolated(config, config)
    except RecursionError:
        raise ConfigError("settings refer to each other in a circle") from None
    resolved |= {name: _typed(name, resolved[name]) for name in SCALARS}
    return Resolved(tuple(overrides), resolved, {group: options.label(group, name) for group, name in choices.items()})


def sweep(overrides: Sequence[str], search: Search = HERE) -> list[tuple[str, ...]]:
    """The runs of ``robustfl-bench -m OVERRIDES``, each as its own overrides, in Hydra's order."""
    given = parsed(overrides)
    _, tree, params = _composed(given, search, swept=True)
    axes: dict[str, list[str]] = {}
    for key, value in params.items():
        axes[key] = values(str(interpolated(value, tree)))
    for key, value in given.items():
        axes[key] = values(value)
    product = itertools.product(*axes.values())
    return [tuple(f"{key}={value}" for key, value in zip(axes, values, strict=True)) for values in product]


def swept(overrides: Sequence[str], search: Search = HERE) -> dict[str, list[str]]:
    """The settings swept by the presets among the overrides, with their values."""
    _, tree, params = _composed(parsed(overrides), search, swept=True)
    return {key: values(str(interpolated(value, tree))) for key, value in params.items()}


def _composed(
    given: Mapping[str, str], search: Search, swept: bool = False
) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """The chosen options, the tree of settings with interpolations as written, and the settings that presets sweep."""
    groups, scalars = options.defaults()
    single = {key: name for key, name in given.items() if not (swept and len(values(name)) > 1)}
    presets = {key.lstrip("+"): name for key, name in single.items() if key.lstrip("+").split("/")[0] in PRESETS}
    chosen = {key: named(read_value(name)) for key, name in single.items() if key in groups}
    bodies: list[Mapping[str, Any]] = []
    found: dict[str, str] = {}
    for group, name in presets.items():
        _visit(group, name, search, bodies)
        _chosen(group, name, search, found)
    for key, name in single.items():
        if "@" in key:
            _check_known(key.partition("@")[0], name, search)
    choices = {group: str(chosen.get(group, found.get(group, default))) for group, default in groups.items()}
    tree: dict[str, Any] = {}
    for group, name in choices.items():
        nested = tuple(
            (place.removeprefix(f"{group}."), option)
            for key, option in single.items()
            if "@" in key and (place := key.partition("@")[2]).split(".")[0] == group
        )
        tree[group] = _option(group, name, nested, search)
    tree |= scalars
    params: dict[str, Any] = {}
    for body in bodies:
        settings = {key: value for key, value in body.items() if key != "hydra"}
        params |= ((body.get("hydra") or {}).get("sweeper") or {}).get("params") or {}
        tree = merge(tree, settings)
    for key, value in single.items():
        plain = key.lstrip("+")
        if key in groups or "@" in key or re.split("[/.]", plain)[0] in (*PRESETS, "hydra"):
            continue
        _set(tree, plain, read_value(value), new=key.startswith("+"))
    return choices, tree, params


def _option(group: str, name: str, nested: tuple[tuple[str, str], ...], search: Search) -> dict[str, Any]:
    chosen = options.listed(name)
    options.check_several(group, chosen)
    try:
        return options.chosen(group, name, nested, search)
    except ConfigError:
        raise
    except (OSError, ValueError):  # also for names that no file can have
        for one in chosen:
            _check_known(group, one, search)
        raise


def _check_known(group: str, name: str, search: Search) -> None:
    if name not in (known := options.names(group, search)) and not outside.is_class(name):
        raise ConfigError(f"unknown {group} {name!r}{near(name, known)}; there are: {', '.join(known)}")


def _preset(path: str, search: Search) -> Mapping[str, Any]:
    try:
        return options.load(path, search)
    except (OSError, ValueError):
        group, _, name = path.partition("/")
        raise ConfigError(f"unknown {group} {name!r}{near(name, options.names(group, search))}") from None


def _entries(group: str, name: str, search: Search) -> Iterator[tuple[str, str, str]]:
    """The defaults list of a preset: kind (``self``, ``override``, ``preset``), group and name."""
    listed = list(_preset(f"{group}/{name}", search).get("defaults") or [])
    for entry in listed if "_self_" in listed else [*listed, "_self_"]:
        if entry == "_self_":
            yield "self", group, name
        elif isinstance(entry, str):
            path = entry.removeprefix("/") if entry.startswith("/") else f"{group}/{entry}"
            yield "preset", *path.split("/", 1)  # type: ignore[misc]
        else:
            ((key, value),) = entry.items()
            kind = "override" if key.startswith("override ") else "preset"
            yield kind, key.removeprefix("override ").strip().removeprefix("/"), named(value)


def _visit(group: str, name: str, search: Search, bodies: list[Mapping[str, Any]]) -> None:
    """Collect the settings of a preset and of the presets that it builds on, in merge order."""
    for kind, other, value in _entries(group, name, search):
        if kind == "self":
            content = _preset(f"{group}/{name}", search)
            bodies.append({key: item for key, item in content.items() if key != "defaults"})
        elif kind == "preset":
            _visit(other, value, search, bodies)


def _chosen(group: str, name: str, search: Search, found: dict[str, str]) -> None:
    """Collect the options that a preset chooses, before those of the presets that it builds on."""
    own: dict[str, str] = {}
    for kind, other, value in reversed(list(_entries(group, name, search))):
        if kind == "preset":
            _chosen(other, value, search, own)
    own |= {other: value for kind, other, value in _entries(group, name, search) if kind == "override"}
    found |= own


def _set(tree: dict[str, Any], key: str, value: Any, new: bool) -> None:
    """Set a setting by its dotted key, without changing shared mappings."""
    *path, last = key.split(".")
    node = tree
    for name in path:
        if not isinstance(node.get(name), Mapping):
            raise ConfigError(f"no setting {key!r}")
        node[name] = dict(node[name])
        node = node[name]
    if last not in node and not new:
        raise ConfigError(f"no setting {key!r}{near(last, map(str, node))}")
    node[last] = value


def _truth(value: Any) -> bool:
    """A boolean as OmegaConf reads it, from words too. Raises ValueError."""
    from omegaconf import BooleanNode, ValidationError  # here, as most commands need no more of OmegaConf

    try:
        return bool(BooleanNode(value)._value())
    except ValidationError as error:
        raise ValueError(value) from error


def _typed(name: str, value: Any) -> Any:
    """The value of a scalar, converted to its type as OmegaConf does. Raises ConfigError."""
    kinds = get_args(_TYPES[name]) or (_TYPES[name],)
    if Any in kinds or (value is None and NoneType in kinds):
        return value
    kind = kinds[0]
    try:
        if kind is bool:
            return value if type(value) is bool else _truth(value)
        if type(value) in {int: (int, str), float: (int, float, str), str: (str, int, float, bool)}[kind]:
            return kind(value)
    except ValueError:
        pass
    raise ConfigError(f"{name} must be of type {kind.__name__}, got {value!r}")
