"""From the overrides of a user to the whole config of a run and its identity, without Hydra.

A run itself is composed by Hydra. Tables, figures and sweeps need the configs of thousands of runs; this module
implements the parts of Hydra's composition that ``conf/`` uses, in under a millisecond per config. A test compares the
two.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType, NoneType
from typing import Any, get_args

from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.base.trees import merge
from robustfl_bench.config import options, outside
from robustfl_bench.config.options import HERE, Search
from robustfl_bench.config.resolvers import BY_ROOT, PLAIN, is_attacked
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.engine.settings import DEFINING, SCALARS, Settings

PRESETS = ("setting", "method", "threat", "experiment")
"""Groups whose options change settings of other groups; the command line adds them with ``+``."""

UNHASHED = ("num_byzantine_declared",)  # rules that use it hold it themselves

_CHAIN = "robustfl_bench.pre_aggregations.chain.Chain"
_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_TYPES = {field.name: field.type for field in fields(Settings)}
_READ_AS = {int: (int, str), float: (int, float, str), str: (str, int, float, bool), bool: (bool,)}
_DIGITS = r"(?:0|[1-9](?:_?\d)*)"
_WHOLE = re.compile(rf"[+-]?{_DIGITS}")
_POINT = rf"(?:{_DIGITS}?\.\d(?:_?\d)*|{_DIGITS}\.)"
_NUMBER = re.compile(rf"[+-]?(?:{_POINT}|(?:{_DIGITS}|{_POINT})[eE][+-]?\d(?:_?\d)*|[iI][nN][fF]|[nN][aA][nN])")


@dataclass(frozen=True)
class Resolved:
    """A run: its ``overrides``, its whole ``config``, and the chosen option of each group."""

    overrides: tuple[str, ...]
    config: Mapping[str, Any]
    choices: Mapping[str, str]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What defines the run; see the function ``identity``."""
        return identity(self.config)

    @cached_property
    def run_id(self) -> str:
        """The hash of the identity."""
        return identify(self.identity)


def resolve(
    overrides: Sequence[str], search: Search = HERE, parts: Mapping[str, Any] = MappingProxyType({})
) -> Resolved:
    """The run of ``robustfl-bench OVERRIDES``; ``parts`` replaces the content of groups. Raises ConfigError for names
    that do not exist."""
    given = _parsed(overrides)
    choices, tree, _ = _composed(given, search)
    tree |= parts
    config = {key: tree.get(key) or None if key in GROUPS else tree[key] for key in (*SCALARS, *GROUPS)}
    config |= {name: _typed(name, config[name]) for name in SCALARS if not options.refers(config[name])}
    try:
        resolved = _interpolated(config, config)
    except RecursionError:
        raise ConfigError("settings refer to each other in a circle") from None
    resolved |= {name: _typed(name, resolved[name]) for name in SCALARS}
    return Resolved(tuple(overrides), resolved, {group: options.label(group, name) for group, name in choices.items()})


def sweep(overrides: Sequence[str], search: Search = HERE) -> list[tuple[str, ...]]:
    """The runs of ``robustfl-bench -m OVERRIDES``, each as its own overrides, in Hydra's order."""
    given = _parsed(overrides)
    _, tree, params = _composed(given, search, swept=True)
    axes: dict[str, list[str]] = {}
    for key, value in params.items():
        axes[key] = _values(str(_interpolated(value, tree)))
    for key, value in given.items():
        axes[key] = _values(value)
    product = itertools.product(*axes.values())
    return [tuple(f"{key}={value}" for key, value in zip(axes, values, strict=True)) for values in product]


def swept(overrides: Sequence[str], search: Search = HERE) -> dict[str, list[str]]:
    """The settings swept by the presets among the overrides, with their values."""
    _, tree, params = _composed(_parsed(overrides), search, swept=True)
    return {key: _values(str(_interpolated(value, tree))) for key, value in params.items()}


def _chained(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with its pre-aggregations as one part: a single one as it is, several as a chain. Their order is part
    of the identity, which ignores the order of mappings.
    """
    parts = list(named_steps(config).values())
    if not parts:
        return dict(config)
    return {**config, "pre_aggregation": parts[0] if len(parts) == 1 else {"_target_": _CHAIN, "steps": parts}}


def named_steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """The pre-aggregations of a config by name; empty if it has none, or holds them as one part."""
    steps = config.get("pre_aggregation")
    return dict(steps) if isinstance(steps, Mapping) and "_target_" not in steps else {}


def defining(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved config that a run folder keeps. Without Byzantine clients, the attack is dropped."""
    whole = _chained(config)
    kept = {key: whole[key] or None if key in GROUPS else whole[key] for key in DEFINING if key in whole}
    if not is_attacked(config):
        kept |= {"num_byzantine": 0, "attack": options.option("attack", "none"), "knowledge": None}
    elif kept.get("knowledge") == "all":
        kept["knowledge"] = None  # not hashed, so that runs made before the group existed keep their id
    return kept


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved config that defines the experiment: its hash is the id of the run.

    A null setting counts as absent, so that a new option with default null changes no identity. Whole numbers are equal
    with and without a decimal point. The ``path`` of a file with a ``digest`` does not count.
    """
    return dict(canonical({key: value for key, value in defining(config).items() if key not in UNHASHED}))


def reference(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the run that recalls are compared with: Average without Byzantine clients, all else equal."""
    parts = {"attack": "none", "aggregator": "average", "pre_aggregation": "none"}
    chosen = {group: options.option(group, name) or None for group, name in parts.items()}
    return {**config, "num_byzantine": 0, **chosen}


def identify(identity: Mapping[str, Any]) -> str:
    """Eight hex digits that stand for everything that defines the experiment."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]


def canonical(value: Any) -> Any:
    """A tree without nulls, in which 1.0 is 1 and numbers have twelve digits, as in the CSV that keeps them."""
    if isinstance(value, Mapping):
        kept = {key: canonical(item) for key, item in value.items() if key != "path" or not value.get("digest")}
        return {key: item for key, item in kept.items() if item is not None and item != {}}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.12g}")
    return value


def _parsed(overrides: Sequence[str]) -> dict[str, str]:
    """The overrides by key, including a ``+``; the last one for a key counts."""
    given = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise ConfigError(f"an override is KEY=VALUE, got {override!r}")
        given[key] = value
    return given


def _composed(
    given: Mapping[str, str], search: Search, swept: bool = False
) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """The chosen options, the tree of settings with interpolations as written, and the settings that presets sweep."""
    groups, scalars = options.defaults()
    single = {key: name for key, name in given.items() if not (swept and len(_values(name)) > 1)}
    presets = {key.lstrip("+"): name for key, name in single.items() if key.lstrip("+").split("/")[0] in PRESETS}
    chosen = {key: _named(read_value(name)) for key, name in single.items() if key in groups}
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


def _named(value: Any) -> str:
    """The option, or list of options, of a value: ``krum`` or ``[clipping,nnm]``."""
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)


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
            yield kind, key.removeprefix("override ").strip().removeprefix("/"), _named(value)


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


def read_value(text: str) -> Any:
    """The value of a word of the command line, by Hydra's grammar, not YAML's (``yes`` is a string)."""
    text = text.strip()
    inner = text[1:-1]
    match text[:1] + text[-1:] if len(text) > 1 else "":
        case "''" | '""':
            return inner.replace(f"\\{text[0]}", text[0])
        case "[]":
            return [read_value(word) for word in _split(inner)] if inner.strip() else []
        case "{}":
            pairs = [word.partition(":") for word in _split(inner)] if inner.strip() else []
            return {read_value(key): read_value(value) for key, _, value in pairs}
    if (word := text.lower()) in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[word]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else re.sub(r"\\([\\()\[\]{}:=,\s])", r"\1", text)


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


def _interpolated(value: Any, root: Mapping[str, Any]) -> Any:
    """A tree of settings with every ``${...}`` resolved in the whole config ``root``."""
    if isinstance(value, Mapping):
        return {key: _interpolated(item, root) for key, item in value.items()}
    if isinstance(value, list):
        return [_interpolated(item, root) for item in value]
    while isinstance(value, str) and (match := _INNERMOST.search(value)):
        found = _expression(match[1], root)
        if match.span() == (0, len(value)):
            return _interpolated(found, root)
        value = f"{value[: match.start()]}{found}{value[match.end() :]}"
    return value


def _expression(text: str, root: Mapping[str, Any]) -> Any:
    """The value of ``key.of.a.setting`` or ``resolver:argument,argument``."""
    name, colon, written = text.partition(":")
    if not colon:
        return _looked_up(name, root)
    arguments = [read_value(word) for word in _split(written)]
    if name == "oc.select":
        return _looked_up(arguments[0], root, *arguments[1:])
    if name in BY_ROOT:
        return BY_ROOT[name](*arguments, _root_=root)
    if name in PLAIN:
        return PLAIN[name](*arguments)
    raise ConfigError(f"unknown resolver {name!r} in ${{{text}}}")


def _looked_up(key: str, root: Mapping[str, Any], *default: Any) -> Any:
    node: Any = root
    for name in key.split("."):
        if not isinstance(node, Mapping) or name not in node:
            if default:
                return default[0]
            raise ConfigError(f"no setting {key!r}, which another one refers to")
        node = node[name]
    return _interpolated(node, root)


def _values(text: str) -> list[str]:
    """The values of a setting: several for ``a,b``, ``range(3)`` or ``[x],[y]``, which sweep it, else one."""
    words = [word.strip() for word in _split(text)]
    if len(words) == 1 and (match := re.fullmatch(r"range\(([-\d, ]+)\)", words[0])):
        return [str(number) for number in range(*map(int, match[1].split(",")))]
    return [word for word in words if word] or [text]


def _split(text: str) -> list[str]:
    """The text between commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
