"""Checks of the classes that a config names by ``_target_``, before any is built."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, fields, is_dataclass
from inspect import get_annotations
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from robustfl_bench.base import trusted
from robustfl_bench.base.abilities import Part
from robustfl_bench.base.contained import contained
from robustfl_bench.base.errors import BrokenContract, ConfigError, DataError, near, one_line
from robustfl_bench.base.fields import type_of_field
from robustfl_bench.parts.adapters import signatures
from robustfl_bench.train.parts import GROUPS, kind
from robustfl_bench.train.settings import Defining

PACKAGE = __package__.partition(".")[0]

REQUIRED = "???"
"""The mark in a config for a value that must be given."""


def check(group: str, content: Any, place: str | None = None) -> None:
    """Raise ConfigError unless the content of a config group names a class of that group with valid options.

    Nested targets must be parts too; options must exist in their class and have values of its types. ``place`` is the
    key of the content, if not the group itself. Imports the modules of the classes; builds nothing.
    """
    place = place or group
    wanted, optional = kind(group)
    if not content and optional:
        return
    if not isinstance(content, Mapping) or "_target_" not in content:
        raise ConfigError(f"{place} must be an option or have a _target_, got {content!r}")
    for here, node in _nodes(place, content):
        if node == REQUIRED:
            raise ConfigError(f"{here} has no default and no value; add {here}=VALUE")
    foreign = set[str]()  # the places of what is adapted
    for here, node in _nodes(place, content):
        if isinstance(node, Mapping) and "_target_" in node:
            found, given = _found(here, node["_target_"]), {key: node[key] for key in node if key != "_target_"}
            if here in foreign and not _is_part(found):
                _check_arguments(group, here, found, given)
                continue
            _check_class(here, found, wanted if node is content else Part)
            _check_options(here, found, given)
            if found.__module__.startswith(signatures.__package__):
                foreign |= {f"{here}.rule", f"{here}.function"}
        elif isinstance(node, Mapping):
            _check_names(here, node)


def check_stored(config: Mapping[str, Any], allowed: Sequence[str] | None, source: str) -> None:
    """Raise ConfigError unless all targets of an untrusted config are in this package or in ``allowed``.

    ``source`` is the file or folder of the config. With ``allowed`` None, packages are not checked. Imports nothing.
    """
    foreign = {}
    for place, node in _nodes("", config):
        if isinstance(node, str) and "${" in node:
            raise ConfigError(f"{source}: {place} is an interpolation, which no run folder holds")
        if not isinstance(node, Mapping) or "_target_" not in node:
            continue
        target = node["_target_"]
        if not isinstance(target, str) or not re.fullmatch(r"\w+(\.\w+)+", target):
            raise ConfigError(f"{source}: {place}._target_ is no class, got {target!r}")
        if allowed is not None and target.partition(".")[0] not in (PACKAGE, *allowed):
            foreign[place] = target
    if allowed is not None and foreign:
        built = " and ".join(f"{place} by {target}" for place, target in foreign.items())
        names = [*allowed, *packages_of(config)]
        raise ConfigError(
            f"{source} builds {built}, not of this package; "
            f"if you trust {'them' if len(foreign) > 1 else 'it'}, add {shlex.quote(allow(names))}"
        )


def packages_of(config: Mapping[str, Any]) -> list[str]:
    """The other packages that a config names by its targets."""
    targets = [node["_target_"] for _, node in _nodes("", config) if isinstance(node, Mapping) and "_target_" in node]
    return sorted({str(target).partition(".")[0] for target in targets} - {PACKAGE})


def allow(names: Iterable[str]) -> str:
    """The override that allows a stored config to build parts of these packages."""
    names = list(dict.fromkeys(names))
    return f"allow={names[0]}" if len(names) == 1 else f"allow=[{','.join(names)}]"


def build(value: Any, adapter: str = "") -> Any:
    """The value of an option: a mapping with a ``_target_`` becomes an instance of that class, or what an ``adapter``
    calls. Raises ConfigError."""
    if isinstance(value, list):
        return [build(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    within = str(value.get("_target_"))
    fields = {key: build(item, within) for key, item in value.items() if key != "_target_"}
    if "_target_" not in value:
        return fields
    module, _, attribute = str(value["_target_"]).rpartition(".")
    try:
        found = getattr(trusted.module(module), attribute)
        with nullcontext() if module.partition(".")[0] == PACKAGE else contained(lambda: f"module {module}"):
            return _whole(found(**fields)) if _is_part(found) else signatures.built(adapter, found, fields)
    except (ConfigError, DataError):
        raise
    except Exception as error:  # a user's class can raise anything
        reason = one_line(error)
        if isinstance(error, TypeError) and "unexpected keyword argument" in reason:
            reason = f"no option {reason.rsplit(' ', 1)[-1]}"
        hint = "; is its folder in PYTHONPATH?" if isinstance(error, ImportError) else ""
        raise ConfigError(f"cannot build {value['_target_']}: {reason}{hint}") from error


def _whole(built: Any) -> Any:
    """The object, if it has all that its kind of part needs; else raises TypeError."""
    needed = [name for kind in type(built).__mro__ if Part in kind.__bases__ for name in get_annotations(kind)]
    if lacks := [name for name in needed if not (hasattr(type(built), name) or name in vars(built))]:
        raise TypeError(f"the class must set {' and '.join(lacks)}")
    return built


def packages(value: Any) -> list[str]:
    """The packages that a value of the setting ``allow`` names; raises ConfigError."""
    names = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise ConfigError(f"allow must be null, the name of a package, or a list [NAME,NAME] of them, got {value!r}")
    return names


def _nodes(place: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """All values in a tree of mappings and lists with their keys, outer ones first."""
    waiting = [(place, tree)]
    while waiting:
        here, node = waiting.pop()
        yield here, node
        if isinstance(node, Mapping):
            waiting += [(f"{here}.{key}".lstrip("."), item) for key, item in node.items()]
        elif isinstance(node, list):
            waiting += [(f"{here}[{index}]", item) for index, item in enumerate(node)]


def found_part(group: str, target: str) -> Any:
    """The class of a dotted name, which must be a part of a config group, or something that can be adapted. Raises
    ConfigError."""
    found = _found(group, target)
    if signatures.adapter(group, found) is None:
        _check_class(group, found, kind(group)[0])
    return found


def _is_part(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Part)


def from_settings(group: str) -> dict[str, str]:
    """The values of required fields with the names of settings. Rules get the number of attackers that the server
    assumes; all other parts get the true one."""
    assumes = group in ("aggregator", "pre_aggregation")
    named = {field.name: f"${{{field.name}}}" for field in fields(Defining)}
    return named | ({"num_byzantine": "${num_byzantine_declared}"} if assumes else {})


def _found(place: str, target: Any) -> Any:
    """The object of a dotted name."""
    module, _, name = str(target).rpartition(".")
    try:
        found = trusted.module(module)
        has_name = hasattr(found, name)  # imports the module of a public name
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    except Exception as error:  # a user's module can raise anything
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            here = near(module, [path.stem for path in Path.cwd().glob("*.py")])
            raise ConfigError(
                f"{place}: cannot import {target}: no module {error.name!r}{here}; searched were the current folder "
                f"{Path.cwd()}, PYTHONPATH ({os.environ.get('PYTHONPATH') or 'not set'}) and the installed packages"
            ) from None
        reason = one_line(error)
        reason = reason if isinstance(error, BrokenContract) else f"{type(error).__name__}: {reason}"
        raise ConfigError(f"{place}: cannot import {target}: {reason}") from error
    if not has_name:
        file = "" if module.partition(".")[0] == PACKAGE else f" ({getattr(found, '__file__', 'no file')})"
        raise ConfigError(f"{place}: {module}{file} has no {name!r}{near(name, dir(found))}")
    return getattr(found, name)


def _check_class(place: str, found: Any, wanted: type[Part]) -> None:
    if isinstance(found, type) and issubclass(found, wanted):
        return
    got = f"{found.__module__}.{found.__qualname__}" if hasattr(found, "__qualname__") else repr(found)
    fitting = [group for group in GROUPS if isinstance(found, type) and issubclass(found, kind(group)[0])]
    meant = f"; did you mean {fitting[0]}={got.rpartition('.')[0]}:{got.rpartition('.')[2]}?" if fitting else ""
    if not meant and place in signatures.GIVEN:
        meant = f"; a function{', or the class of a network' * (place == 'model')} does as well"
    raise ConfigError(f"{place} must be {_in_words(wanted)}, got {got}{meant}")


def _check_names(place: str, names: Iterable[Any]) -> None:
    """Raise ConfigError for a key that would change how Hydra builds a part (``_partial_``)."""
    if special := [name for name in names if str(name).startswith("_")]:
        raise ConfigError(f"{place}: no option {', '.join(map(repr, special))}")


def _check_arguments(group: str, place: str, found: Any, given: Mapping[str, Any]) -> None:
    """Raise ConfigError for what is no function or class that can be adapted, and for options that it lacks."""
    if signatures.adapter(group, found) is None:
        raise ConfigError(f"{place} must be a function, or a class whose objects are called")
    known = signatures.options(group, found)
    for name in given:
        if name not in known:
            raise ConfigError(f"{place}: no option {name!r}{near(name, known)}")


def _check_options(place: str, found: type[Part], options: Mapping[str, Any]) -> None:
    """Raise ConfigError for options that a class lacks or gives another type."""
    _check_names(place, options)
    if not is_dataclass(found):
        return
    known = {field.name: field for field in fields(found) if field.init}
    required = (name for name, field in known.items() if field.default is field.default_factory is MISSING)
    if lacking := [name for name in required if name not in options]:
        settings = from_settings(place.partition(".")[0])
        lines = ", ".join(f"{name}: {settings.get(name, 'VALUE')}" for name in lacking)
        raise ConfigError(f"{place}: {found.__name__} has no default of {' and '.join(lacking)}; add {lines}")
    for name, value in options.items():
        if name not in known:
            raise ConfigError(f"{place}: no option {name!r}{near(str(name), known)}")
        try:
            wanted = type_of_field(found, name)
        except NameError:  # of a name imported for type checkers only
            continue
        if not _fits(f"{place}.{name}", value, wanted):
            raise ConfigError(f"{place}.{name} must be {_in_words(wanted)}, got {value!r}")


def _fits(place: str, value: Any, wanted: Any) -> bool:
    """Whether a value of a config fits an annotation; true for annotations that are not plain types."""
    if get_origin(wanted) in (Union, UnionType):
        return any(_fits(place, value, one) for one in get_args(wanted))
    if get_origin(wanted) is tuple:
        return isinstance(value, list | tuple) and all(_fits(place, item, get_args(wanted)[0]) for item in value)
    if wanted in (int, float):
        return isinstance(value, int if wanted is int else (int, float)) and not isinstance(value, bool)
    if wanted in (str, bool, NoneType):
        return isinstance(value, wanted)
    if isinstance(wanted, type) and issubclass(wanted, Part):
        found = _found(place, value["_target_"]) if isinstance(value, Mapping) and "_target_" in value else None
        return isinstance(found, type) and issubclass(found, wanted)
    return True


def _in_words(wanted: Any) -> str:
    """The name of an annotation in errors."""
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(map(_in_words, get_args(wanted)))
    if get_origin(wanted) is tuple:
        return f"a list, each {_in_words(get_args(wanted)[0])}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", NoneType: "null"}
    return words.get(wanted) or f"a subclass of robustfl_bench.interfaces.{wanted.__name__}"
