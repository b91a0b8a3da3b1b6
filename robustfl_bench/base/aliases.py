"""Public names of modules: ``robustfl_bench.aggregators`` is ``robustfl_bench.parts.aggregators``.

Configs, ids, pages and users' code use the public names, so that a wing can be rearranged without touching any of them.
"""

from functools import cache
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parent.parent

_WINGS = ("parts", "doors")
"""The wings whose rooms have public names without the name of the wing."""


@cache
def home(room: str) -> str:
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
    return ".".join(filter(None, (package, home(room), inside)))


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
