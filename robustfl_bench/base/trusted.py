"""The gate between a name and code: which packages may be imported because a config names one of their classes.

A config that the user writes is code and may name any package. Results may come from anybody: a command that reads them
imports this package, and those that the user names to it.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from types import ModuleType

from robustfl_bench.base.contained import contained, is_own, watch
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.public import PACKAGE

_packages: ContextVar[frozenset[str] | None] = ContextVar("packages", default=None)
"""The packages that may be imported besides this one; None: any."""

_CLASS = re.compile(
    r"(?:^|[=,\[])\s*([^\W\d]\w*)(?:\.\w+)*:[^\W\d]\w*(?=\s*(?:$|[,\]]))"  # my_module:MyRule
    r"|_target_\s*[=:]\s*([^\W\d]\w*)\."
)


@contextmanager
def only(packages: Iterable[str] | None = None) -> Iterator[None]:
    """Within this context, import only this package and ``packages``; by default those that are trusted already, and
    none if any package is."""
    before = _packages.get() or frozenset()
    token = _packages.set(before if packages is None else frozenset(packages))
    try:
        yield
    finally:
        _packages.reset(token)


def packages() -> list[str] | None:
    """The packages besides this one that may be imported; None if any may."""
    return None if (known := _packages.get()) is None else sorted(known)


def named(words: Iterable[str]) -> set[str]:
    """The packages of the classes among words of a command line, such as ``aggregator=my_module:MyRule``."""
    return {found[1] or found[2] for word in words for found in _CLASS.finditer(word)}


def check(name: str) -> None:
    """Raise ConfigError if the package of this dotted name may not be imported."""
    package, known = name.partition(".")[0], _packages.get()
    if known is not None and package not in (PACKAGE.name, *known):
        raise ConfigError(f"add --allow {package} if you trust {name}, which is not of this package")


def module(name: str) -> ModuleType:
    """The module of this name. Raises ConfigError if its package may not be imported, and what an import raises."""
    check(name)
    if name.partition(".")[0] == PACKAGE.name:
        return import_module(name)
    _see_current_folder()
    before = {*sys.modules} if name not in sys.modules else None
    with contained(lambda: f"module {name}"):
        found = import_module(name)
    if before is not None:
        _read_sources(sys.modules.keys() - before)
    return found


def _read_sources(modules: Iterable[str]) -> None:
    """Read the user's files among modules that were imported a moment ago."""
    from robustfl_bench.base import source_code  # late, as most commands need no code from outside

    for name in modules:
        path = Path(getattr(sys.modules.get(name), "__file__", None) or "")
        if path.suffix == ".py" and is_own(path.resolve()):
            source_code.imported(name, path)


def _see_current_folder() -> None:
    """Add the current folder to the end of Python's path, on which an installed command does not have it. At the end, a
    ``random.py`` there hides no other module.
    """
    watch()
    here = os.getcwd()
    if not {"", here} & set(sys.path):
        sys.path.append(here)
