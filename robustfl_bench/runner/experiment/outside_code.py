"""The code of parts from outside this package: their sources, what these import, what they read, and whether the
numbers of a run with them follow from its seed.

Parts of this package draw from named streams (``base.seeding``), which the tests check. Where a run has other parts,
the global random generators are watched, and its first round in a process is computed twice.
"""

from __future__ import annotations

import copy
import hashlib
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from robustfl_bench.base import code_digest, trusted
from robustfl_bench.base.contained import LIBRARIES, has_changed, is_own, opened_by, variables_of, varying_of
from robustfl_bench.base.source_code import Origin, cells_of, closure, effective, imported, imports_of, read_again
from robustfl_bench.runner.store.writing import hashed
from robustfl_bench.train.parts import GROUPS

if TYPE_CHECKING:
    from robustfl_bench.parts.protocols.state import Round, State
    from robustfl_bench.train.federation import Federation
    from robustfl_bench.train.loop import Step

NO_SOURCE = "no source"

UNSET = "not set"
"""Stands for the SHA-256 of an environment variable that has no value."""

UNKNOWN = "unknown"
"""Stands for the clock, or a generator without a seed: a round has two results, and no global generator was used."""
_UNKNOWN = "the clock, a generator without a seed, or what it keeps from an earlier call"

_drawn: dict[str, dict[str, None]] = defaultdict(dict)
"""What was found in this process that is ``unseeded``, by the words for the parts from outside."""


class OutsideCode:
    """The code of a run's parts from outside this package, whose classes are ``groups``, by config group."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.groups = {group: names for group in GROUPS if (names := targets(config.get(group)))}

    def __str__(self) -> str:
        return " or ".join(f"{group} {name}" for group, names in self.groups.items() for name in names)

    @property
    def digests(self) -> dict[str, str]:
        """The digest of the code of each group."""
        return {group: digest(names) for group, names in self.groups.items()}

    @property
    def sources(self) -> set[Origin]:
        """The sources behind them."""
        return {origin for names in self.groups.values() for name in names for origin in _sources(name).code}

    @property
    def without_source(self) -> list[str]:
        """Those of which there is no source: typed at a prompt, or made by ``exec``."""
        return [name for names in self.groups.values() for name in _without_source(names)]

    @property
    def read(self) -> dict[str, dict[str, str]]:
        """The files and environment variables that they have read in this process, with their SHA-256, by group. What
        a data set reads is known by its files."""
        read_by = {group: _read_by(names) for group, names in self.groups.items() if group != "dataset"}
        return {group: paths for group, paths in read_by.items() if paths}

    @property
    def unseeded(self) -> list[str]:
        """What they used in this process, and the seed does not fix: global generators, UNKNOWN, and functions that
        answer otherwise in another process; empty if nothing."""
        varying = [name for names in self.groups.values() for name in sorted(varying_of(_places(names)))]
        return list(dict.fromkeys([*_drawn.get(str(self), ()), *varying]))

    def uses(self, unseeded: Iterable[str]) -> str:
        """What they were found to use, in words."""
        words = [_UNKNOWN if name == UNKNOWN else name for name in unseeded]
        return f"{self} uses {' and '.join(words)}, which seed does not fix"

    def remark(self, unseeded: Iterable[str]) -> str:
        """One line on a run in which they were found to use that."""
        return (
            f"{self.uses(unseeded)}: the same command gives other numbers each time; draw from the rng of the view, or "
            "from robustfl_bench.base.seeding.generator(seed, name)"
        )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Find the global generators that are used within the context; without parts from outside, do nothing."""
        if not self.groups:
            yield
            return
        from robustfl_bench.base.seeding import GlobalGenerators

        before = GlobalGenerators()
        try:
            yield
        finally:
            _drawn[str(self)] |= dict.fromkeys(before.drawn())

    def step(self) -> Step:
        """The step from round to round of a run; with parts from outside, one that finds what is ``unseeded``."""
        from robustfl_bench.train import contract, rounds

        tried = False

        def step(federation: Federation, state: State) -> tuple[State, Round | None]:
            nonlocal tried
            trial = None if tried else _trial(federation, state)
            tried = True
            with self.watched():
                after, happened = rounds.step(federation, state)
            if trial is not None and not contract.alike(trial.stored(), after.stored()):
                _drawn[str(self)][UNKNOWN] = None
            return after, happened

        return step if self.groups else rounds.step


def _trial(federation: Federation, state: State) -> State:
    """The state after the next round, with the given state and the global generators left as they are."""
    from robustfl_bench.base.seeding import GlobalGenerators
    from robustfl_bench.train import rounds

    generators = GlobalGenerators()
    try:
        return rounds.step(federation, copy.deepcopy(state))[0]
    finally:
        generators.restore()


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
    """SHA-256 over the code of classes: the effective text of their source files, or cells of a notebook, and of the
    user's modules that these import, from wherever; the versions of the installed packages among the imports; and what
    they declare in ``depends_on``, files by their content and environment variables by their value.

    Begins with NO_SOURCE, and is never the same twice, if one of them has no source.
    """
    if _without_source(names):
        return f"{NO_SOURCE} {uuid4().hex}"
    own = _digest(tuple(_sources(name) for name in names))
    total = hashlib.sha256(own.encode())
    for line in _declared(names):
        total.update(line.encode())
    return total.hexdigest() if _declared(names) else own


def _without_source(names: Iterable[str]) -> list[str]:
    return [name for name in names if not _sources(name).code]


def _read_by(names: tuple[str, ...]) -> dict[str, str]:
    """The SHA-256 of what the code of classes has read in this process: of files, by path, and of environment variables
    that it does not declare, ``$NAME``. A file that has changed since it was read gets none that a file has."""
    places = _places(names)
    variables = {f"${name}" for name in variables_of(places)} - {line.partition("=")[0] for line in _declared(names)}
    read = (*map(str, opened_by(places)), *sorted(variables))
    found = {name: content for name in read if (content := now(name)) is not None}
    return {name: f"changed {uuid4().hex}" if has_changed(name) else content for name, content in found.items()}


def _places(names: tuple[str, ...]) -> set[Path]:
    return {place for name in names for place in _sources(name).places}


def now(read: str) -> str | None:
    """The SHA-256 of a file, by path, or of an environment variable, ``$NAME``; None for a file that cannot be read."""
    if not read.startswith("$"):
        return content_of(Path(read))
    value = os.environ.get(read[1:])
    return UNSET if value is None else hashlib.sha256(value.encode()).hexdigest()


def content_of(path: Path) -> str | None:
    """The SHA-256 of a regular file, or of the one that a link points to; None if it cannot be read."""
    try:
        return hashed(path.resolve())[0].hexdigest()
    except (OSError, RuntimeError, ValueError):  # of a loop of links; of a name that no file can have; Damaged
        return None


@dataclass(frozen=True)
class _Sources:
    """The code of a class and of the user's modules that it imports, at any depth; the files and cells that it comes
    from; and the installed packages among the imports with their versions."""

    code: frozenset[Origin]
    places: frozenset[Path]
    packages: frozenset[str]


@cache
def _digest(sources: tuple[_Sources, ...]) -> str:
    total = hashlib.sha256()
    for origin in sorted(
        {origin for each in sources for origin in each.code}, key=lambda origin: (isinstance(origin, bytes), origin)
    ):
        total.update(effective(origin))
    for package in sorted({package for each in sources for package in each.packages}):
        total.update(package.encode())
    return total.hexdigest()


def _declared(names: Iterable[str]) -> list[str]:
    """What classes declare in ``depends_on``, each with its content or value."""
    lines = []
    for name in names:
        module, _, attribute = name.rpartition(".")
        home = Path(getattr(_module(name), "__file__", None) or "").parent
        for entry in getattr(getattr(sys.modules.get(module), attribute, None), "depends_on", ()):
            now = os.environ.get(entry[1:]) if entry.startswith("$") else content_of(home / entry)
            lines.append(f"{entry}={now}")
    return lines


def _sources(name: str) -> _Sources:
    """The sources of a class; without code if one of them cannot be found."""
    root = _module(name)
    if read_again():
        _of_modules.cache_clear()
        _digest.cache_clear()
        code_digest.forget()
    if getattr(root, "__file__", None) is not None:
        return _of_modules(root.__name__, frozenset([root.__name__]))
    cells = cells_of(getattr(root, name.rpartition(".")[2]))  # each time, as a cell can be executed again
    if cells is None:
        return _Sources(frozenset(), frozenset(), frozenset())
    others = _of_modules(root.__name__, imports_of(cells.text))
    return _Sources(others.code | {cells.text}, others.places | cells.names, others.packages)


@cache
def _of_modules(root: str, names: frozenset[str]) -> _Sources:
    """The sources of modules: of ``root``, and of those that are the user's."""
    packages: set[str] = set()

    def find(name: str) -> tuple[str, Path] | None:
        path = Path(getattr(sys.modules.get(name), "__file__", None) or "")
        if path.suffix == ".py" and (name == root or is_own(path.resolve())):
            imported(name, path)
            return name, path
        if any(part in LIBRARIES for part in path.parts):
            packages.add(_with_version(name.partition(".")[0]))
        return None

    files = frozenset(closure(names, find))
    return _Sources(files, files, frozenset(packages))


def _with_version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:  # its distribution has another name
        return f"{package} {getattr(sys.modules.get(package), '__version__', '')}"


def _module(name: str) -> ModuleType:
    """The module of a class, or of one of its methods."""
    while name := name.rpartition(".")[0]:
        try:
            return trusted.module(name)
        except ModuleNotFoundError:
            continue
    raise ImportError("not a name of a class")
