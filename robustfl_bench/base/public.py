"""Public names: ``robustfl_bench.aggregators`` is ``robustfl_bench.parts.aggregators``, and
``robustfl_bench.aggregators.Krum`` names a class of that room, not the module that holds it.

Configs, ids, digests, pages and users' code use these names, so that a wing can be rearranged, and a module be moved or
renamed within its room, without touching any of them.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent

_WINGS = ("parts", "doors")
"""The wings whose rooms have public names without the name of the wing."""


@cache
def _place_of(room: str) -> str:
    """The place of a public room below the package, ``parts.aggregators`` for ``aggregators``; other names as they
    are."""
    wings = (wing for wing in _WINGS if (PACKAGE / wing / room).is_dir() or (PACKAGE / wing / f"{room}.py").is_file())
    return ".".join([*([wing] if (wing := next(wings, None)) else []), room])


def real(module: str) -> str:
    """The name under which a module is imported; a name that is not public is returned as it is."""
    package, _, rest = module.partition(".")
    room, _, inside = rest.partition(".")
    if package != PACKAGE.name or not room:
        return module
    return ".".join(filter(None, (package, _place_of(room), inside)))


def public(module: str) -> str:
    """The public name of a module."""
    package, _, rest = module.partition(".")
    wing, _, inside = rest.partition(".")
    return f"{package}.{inside}" if package == PACKAGE.name and wing in _WINGS and inside else module


class _SameModule(Loader):
    """Answers the import of a public name with the module itself, so that no module exists twice."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import has put that of the alias in its place


def spec_of(name: str) -> ModuleSpec | None:
    """How a public name is imported; None for any other name."""
    return None if (module := real(name)) == name else ModuleSpec(name, _SameModule(module))


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
