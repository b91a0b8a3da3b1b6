"""Parts given as Python objects, as the words of a command line that choose the same parts.

A run of objects and a run of these words have the same config, and so the same id.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.abilities import Part
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import choices, identity, options, outside, words
from robustfl_bench.train.parts import GROUPS


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """The words of ``robustfl-bench`` for settings by name. Raises ConfigError for values that no config can hold.

    The value of a config group is the name of an option, a part, its class, a function, the content of a part as a
    mapping, or a list of these; None is the option ``none``. Any other value is written as it is.
    """
    return [
        word
        for name, value in settings.items()
        for word in (
            _of_group(name, value) if name in GROUPS else [f"{name}={words.written(_plain(name, _called(value)))}"]
        )
    ]


def _called(value: Any) -> Any:
    """Functions of the user, as metrics are, by their words; any other value as it is."""
    if isinstance(value, FunctionType):
        return outside.word(target_of(value))
    return [_called(item) for item in value] if isinstance(value, list) else value


def _of_group(group: str, value: Any) -> list[str]:
    """The words that choose the option, or several options, of a config group, and then set their fields."""
    if isinstance(value, Mapping) and "_target_" not in value:
        value = list(value.values()) or None
    several = isinstance(value, list | tuple)
    pairs = [_chosen(group, item) for item in (value if several else [value])]
    names = ",".join(name for name, _ in pairs)
    return [f"{group}={f'[{names}]' if several else names}", *(word for _, fields in pairs for word in fields)]


def _chosen(group: str, value: Any) -> tuple[str, list[str]]:
    """The option of a group that a value stands for, and the words for the fields in which a part differs from it."""
    if value is None or isinstance(value, str):
        return value or choices.nothing(group), []
    if isinstance(value, FunctionType | type):
        return _of_class(group, target_of(value)), []
    if not isinstance(value, Part | Mapping):
        given = repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"
        raise ConfigError(f"{group} takes the name of an option, a part or its class, got {given}")
    content = value if isinstance(value, Mapping) else content_of(value)
    option = choices.nearest(group, content)
    place = options.place_of(group, option)
    return option, list(_fields(f"{group}.{place}" if place else group, options.option(group, option), content))


def _of_class(group: str, target: str) -> str:
    """The option of a group that is this class of the package with the defaults of its fields, or else the class."""
    word = outside.word(target)
    if not target.startswith(f"{public.PACKAGE.name}."):
        return word
    content = identity.canonical(outside.content(group, word))
    same = (name for name in options.names(group) if identity.canonical(options.option(group, name)) == content)
    return min(same, key=lambda name: options.original(group, name) != name, default=word)


def _fields(prefix: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterable[str]:
    """The words that turn the content of an option into another one of the same class."""
    for name in given.keys() - wanted.keys():
        yield f"~{prefix}.{name}"
    for name in choices.unlike(given, wanted):
        key, replaced = f"{prefix}.{name}", isinstance(given.get(name), Mapping)
        if replaced:  # else the two mappings would be merged
            yield f"~{key}"
        yield f"{'++' if replaced or name not in given else ''}{key}={words.written(wanted[name])}"


def content_of(part: Part) -> dict[str, Any]:
    """The part as a config holds it: its class and all its fields. Raises ConfigError for what a config cannot hold."""
    cls = type(part)
    if not is_dataclass(cls) and cls.__init__ is not object.__init__:
        raise ConfigError(f"{cls.__name__} must be a dataclass, so that a config can hold the values it was made with")
    own: Sequence[Field[Any]] = [field for field in fields(cls) if field.init] if is_dataclass(cls) else []
    content: dict[str, Any] = {"_target_": target_of(cls)}
    for field in own:
        value = getattr(part, field.name)
        if value is not field.default or outside.plain(value) is not MISSING:  # else no config can hold the default
            content[field.name] = _plain(f"{cls.__name__}.{field.name}", value)
    return content


def target_of(made: Any) -> str:
    """The public dotted name of a class or function. Raises ConfigError if it cannot be found again by a name."""
    module, name = made.__module__, made.__qualname__
    if not name.isidentifier():
        raise ConfigError(f"{name} must be defined at the top level of a module, or in a cell of a notebook")
    room = public.public(module.rpartition(".")[0])
    own = module.startswith(f"{public.PACKAGE.name}.") and public.modules_of(room).get(name) == module
    return f"{room if own else module}.{name}"


def _plain(place: str, value: Any) -> Any:
    """A value as a config holds it. Raises ConfigError."""
    if isinstance(value, Part):
        return content_of(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{place}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(place, item) for item in value]
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of NumPy or PyTorch
        return value.item()
    if (plain := outside.plain(value)) is MISSING:
        raise ConfigError(f"{place} is a {type(value).__name__}; a config holds numbers, words, lists and parts")
    return plain
