"""The code of parts from outside this package: their source files, what these import, and what they read."""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from robustfl_bench.base.opened import LIBRARIES, is_own, opened_by
from robustfl_bench.base.source_code import closure, effective


def targets(value: Any) -> tuple[str, ...]:
    """The classes from outside this package that a part's config names, at any depth."""
    if isinstance(value, list):
        return tuple(name for item in value for name in targets(item))
    if not isinstance(value, Mapping):
        return ()
    own = str(value.get("_target_", ""))
    ours = not own or own.split(".")[0] in ("robustfl_bench", *sys.stdlib_module_names)
    return (*(() if ours else (own,)), *(name for item in value.values() for name in targets(item)))


def digest(names: tuple[str, ...]) -> str:
    """SHA-256 over the code of classes: the effective text of their source files and of the user's modules that these
    import, from wherever; the versions of the installed packages among the imports; and what they declare in
    ``depends_on``, files by their content and environment variables by their value.
    """
    total = hashlib.sha256(_digest(names).encode())
    for line in _declared(names):
        total.update(line.encode())
    return total.hexdigest() if _declared(names) else _digest(names)


def files(names: tuple[str, ...]) -> list[Path]:
    """The source files behind classes."""
    return sorted({path for name in names for path in _sources(name)[0]})


def read_by(names: tuple[str, ...]) -> dict[str, str]:
    """The SHA-256 of each file that the code of classes has opened in this process, by path."""
    return {str(path): content for path in opened_by(files(names)) if (content := content_of(path)) is not None}


def content_of(path: Path) -> str | None:
    """The SHA-256 of a file; None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


@cache
def _digest(names: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for path in files(names):
        total.update(effective(path))
    for package in sorted({package for name in names for package in _sources(name)[1]}):
        total.update(package.encode())
    return total.hexdigest()


def _declared(names: Iterable[str]) -> list[str]:
    """What classes declare in ``depends_on``, each with its content or value."""
    lines = []
    for name in names:
        module, _, attribute = name.rpartition(".")
        home = Path(_module(name).__file__ or "").parent
        for entry in getattr(getattr(sys.modules.get(module), attribute, None), "depends_on", ()):
            now = os.environ.get(entry[1:]) if entry.startswith("$") else content_of(home / entry)
            lines.append(f"{entry}={now}")
    return lines


@cache
def _sources(name: str) -> tuple[frozenset[Path], frozenset[str]]:
    """The source files of a class and of the user's modules that it imports, at any depth, and the installed packages
    among the imports with their versions."""
    root = _module(name)
    packages: set[str] = set()

    def find(name: str) -> tuple[str, Path] | None:
        path = Path(getattr(sys.modules.get(name), "__file__", None) or "")
        if path.suffix == ".py" and (name == root.__name__ or is_own(path.resolve())):
            return name, path
        if any(part in LIBRARIES for part in path.parts):
            packages.add(_with_version(name.partition(".")[0]))
        return None

    return frozenset(closure([root.__name__], find)), frozenset(packages)


def _with_version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:  # its distribution has another name
        return f"{package} {getattr(sys.modules.get(package), '__version__', '')}"


def _module(name: str) -> ModuleType:
    """The module of a class, or of one of its methods."""
    while name := name.rpartition(".")[0]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ImportError("not a name of a class")
