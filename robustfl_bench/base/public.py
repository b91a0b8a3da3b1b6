"""Public names of classes: ``robustfl_bench.aggregators.Krum`` names a class of a room, not the module that holds it.

Configs, ids and digests use these names, so a module can be moved or renamed within its room.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from robustfl_bench.base.aliases import PACKAGE as PACKAGE
from robustfl_bench.base.aliases import public as public
from robustfl_bench.base.aliases import real

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


@cache
def modules_of(room: str) -> dict[str, str]:
    """The module of each class that a room defines, by the name of the class; imports nothing."""
    room = real(room)
    paths = sorted(PACKAGE.joinpath(*room.split(".")[1:]).glob("*.py"))
    return {name: f"{room}.{path.stem}" for path in paths for name in _CLASS.findall(path.read_text(encoding="utf-8"))}


def facade(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for the ``__init__`` of a room: its classes, each imported on first access."""

    def get(name: str) -> Any:
        if name.startswith("_") or name not in modules_of(room):
            raise AttributeError(f"module {public(room)!r} has no attribute {name!r}")
        return getattr(import_module(modules_of(room)[name]), name)

    def names() -> list[str]:
        return sorted(name for name in modules_of(room) if not name.startswith("_"))

    return get, names


@cache
def groups() -> list[str]:
    """The rooms of the config groups, ``robustfl_bench.aggregators``: those with a base class; imports nothing."""
    return sorted(f"{PACKAGE.name}.{path.parent.name}" for path in PACKAGE.glob("parts/*/base.py"))


def groups_with(name: str) -> list[str]:
    """The rooms of config groups that define a class of this name."""
    return [room for room in groups() if name in modules_of(room)]


def parts() -> list[str]:
    """The names of classes that exactly one config group defines."""
    names = [name for room in groups() for name in modules_of(room) if not name.startswith("_")]
    return sorted(name for name, times in Counter(names).items() if times == 1)


def home(target: str) -> str | None:
    """The module of the class with this public name; None for a name that is not of this package."""
    room, _, name = target.rpartition(".")
    return modules_of(room).get(name) if re.fullmatch(rf"{PACKAGE.name}(\.\w+)+", room) else None  # no other folder


@cache
def defaults(target: str) -> Mapping[str, Any]:
    """The defaults of a class's fields that are literals, by its public name; imports nothing.

    Fields of base classes in the same room count. Empty for a class of another package.
    """
    module = home(target)
    if module is None:
        return MappingProxyType({})
    room, _, name = target.rpartition(".")
    tree = _parsed(module)
    (node,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    values: dict[str, Any] = {}
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id in modules_of(room):
            values |= defaults(f"{room}.{base.id}")
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            values.pop(line.target.id, None)
            try:
                values[line.target.id] = ast.literal_eval(line.value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                continue
    return MappingProxyType(values)


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
