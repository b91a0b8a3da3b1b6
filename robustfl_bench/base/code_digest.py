"""Digests of this package's code: of all of it, and of the part that the numbers of a run depend on."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from robustfl_bench.base import public
from robustfl_bench.base.source_code import closure, effective

PACKAGE = Path(__file__).resolve().parent.parent

ROOTS = ("robustfl_bench.datasets", "robustfl_bench.engine.federation", "robustfl_bench.engine.loop")
"""Modules that every run executes: reading data, partitioning them, the rounds."""


@cache
def package_digest() -> str:
    """SHA-256 over the names and contents of all Python files of this package."""
    return _digest(_entry(path, path.read_bytes()) for path in PACKAGE.rglob("*.py"))


def code_digest(config: object) -> str:
    """SHA-256 over the names and the effective text of ``files_of`` a run, without comments and docstrings."""
    return _code_digest(_named(config))


def files_of(config: object) -> set[Path]:
    """The files of this package that the numbers of a run can depend on.

    These are ROOTS and the modules of the classes named in ``config``, with all their imports at any depth, also those
    in functions, but without imports for type checkers. So an edit of a rule changes the digests of the runs with this
    rule, and an edit of a table or a picture changes none. Not covered: conf/ and the package config, which a run's id
    covers, the machine and the libraries.
    """
    return set().union(*map(_files_of, (*ROOTS, *_named(config))))


@cache
def _files_of(name: str) -> frozenset[Path]:
    return frozenset(closure([name], _own_file))


def _named(config: object) -> frozenset[str]:
    return frozenset(re.findall(r"\brobustfl_bench(?:\.\w+)+", str(config)))


@cache
def _code_digest(names: frozenset[str]) -> str:
    return _digest(map(_effective, files_of(names)))


@cache
def _own_file(name: str) -> tuple[str, Path] | None:
    """The module of this package, and its file, for the name of a module or of a class or function in it.

    None for other packages, and for ``config``. The ``__init__`` of a package counts if the package is named, not if a
    module in it is.
    """
    name = public.home(name) or name
    first, *rest = name.split(".")
    if first != PACKAGE.name or not rest or rest[0] == "config":
        return None
    place = PACKAGE.joinpath(*rest)
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    path = next((path for path in candidates if path.is_file()), None)
    return (name, path) if path is not None else _own_file(name.rpartition(".")[0])


_Entry = tuple[tuple[str, ...], bytes]  # where a file is in this package; its name, size and text


@cache
def _effective(path: Path) -> _Entry:
    return _entry(path, effective(path))


def _entry(path: Path, content: bytes) -> _Entry:
    place = path.relative_to(PACKAGE)
    return place.parts, f"{place.as_posix()} {len(content)}\n".encode() + content


def _digest(entries: Iterable[_Entry]) -> str:
    total = hashlib.sha256()
    for _, text in sorted(entries):
        total.update(text)
    return total.hexdigest()
