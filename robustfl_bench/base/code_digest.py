"""Digests of this package's code: of all of it, and of the part that the numbers of a run depend on."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from robustfl_bench.base.closures import Closure, Tree
from robustfl_bench.base.public import PACKAGE as PACKAGE
from robustfl_bench.base.units import Symbol

Outside = Iterable[Path | bytes]
"""The code of parts from outside: files or texts."""


@cache
def package_digest() -> str:
    """SHA-256 over the names and contents of all Python files of this package."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        total.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()


@dataclass(frozen=True)
class Computing:
    """What computes runs: ``always`` is what every run executes, ``named`` what a run executes as well whose config has
    a word, a regular expression. ``neutral`` are modules that change no number."""

    always: tuple[Symbol, ...]
    named: tuple[tuple[str, Symbol], ...] = ()
    neutral: frozenset[str] = frozenset()

    def closure(self, config: object, outside: Outside = ()) -> Closure:
        """The code that can change the numbers of a run with this config: all that can be reached from ``always``, from
        the parts and words that the config names, and from the code of parts from outside."""
        words = str(config)
        parts = set(re.findall(rf"\b({PACKAGE.name}\.\w+)\.([A-Z]\w*)", words))
        parts |= {symbol for word, symbol in self.named if re.search(word, words)}
        return _closure(self, frozenset(parts), frozenset(outside))


@cache
def _closure(computing: Computing, parts: frozenset[Symbol], outside: frozenset[Path | bytes]) -> Closure:
    return _tree(computing.neutral).closure(computing.always, sorted(parts), sorted(outside, key=str))


@cache
def _tree(neutral: frozenset[str]) -> Tree:
    return Tree(PACKAGE, neutral)
