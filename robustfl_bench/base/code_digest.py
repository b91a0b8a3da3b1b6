"""Digests of this package's code: of all of it, and of the part that the numbers of a run depend on."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from robustfl_bench.base.public import PACKAGE as PACKAGE
from robustfl_bench.base.units import Closure, Symbol, Tree

ROOTS = (
    ("robustfl_bench.datasets", "load"),
    ("robustfl_bench.train.federation", "Federation"),
    ("robustfl_bench.train.stack", "Stackable"),
    ("robustfl_bench.train.stack", "Stack"),
    ("robustfl_bench.train.rounds", "initial_state"),
    ("robustfl_bench.train.rounds", "step"),
    ("robustfl_bench.train.evaluation", "on_test_set"),
    ("robustfl_bench.train.evaluation", "on_validation_set"),
    ("robustfl_bench.train.evaluation", "on_goal"),
    ("robustfl_bench.runner.experiment.machine", "set_precision"),
)
"""What every run executes: reading data, dealing them out, the rounds, and the tests of the models."""

IN_BFLOAT16 = ("robustfl_bench.numerics.network.bfloat16", "rounded")
"""What runs with ``precision=medium`` execute as well."""

CLAIMED = ("robustfl_bench.train.claims", "claimed")
"""What runs execute as well whose attackers lie about their number of samples."""

NEUTRAL = frozenset(
    f"robustfl_bench.{name}"
    for name in (
        "base.abilities",
        "base.console",
        "base.errors",
        "base.fields",
        "numerics.network.augments",
        "train.execution",
    )
)
"""Modules that change no number: they only refuse, report, and say where and how long a run is computed."""


@cache
def package_digest() -> str:
    """SHA-256 over the names and contents of all Python files of this package."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        total.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()


def code_digest(config: object, outside: Iterable[Path | bytes] = ()) -> str:
    """SHA-256 over the code of this package that can change the numbers of a run.

    This is the text of all functions, methods, class bodies and constants that can be reached from ROOTS, from the
    parts and the precision that ``config`` names, and from ``outside``, the code of parts from outside: files or texts.
    So an edit of a rule changes the digests of the runs with this rule; an edit of a table, a docstring, an error
    message or of the name of a local variable changes none, and neither does moving code to another module. Not
    covered: conf/ and how configs are composed, which a run's id covers, the machine and the libraries.
    """
    return closure_of(config, outside).digest


def closure_of(config: object, outside: Iterable[Path | bytes] = ()) -> Closure:
    """The code of this package that can change the numbers of a run, see ``code_digest``."""
    return _closure(_named(config), frozenset(outside))


@cache
def _closure(parts: frozenset[Symbol], outside: frozenset[Path | bytes]) -> Closure:
    return _tree().closure(ROOTS, sorted(parts), sorted(outside, key=str))


@cache
def _tree() -> Tree:
    return Tree(PACKAGE, NEUTRAL)


def _named(config: object) -> frozenset[Symbol]:
    """The parts that a config names, and the code of its precision and of false claims."""
    parts = frozenset(re.findall(r"\b(robustfl_bench\.\w+)\.([A-Z]\w*)", str(config)))
    also = {r"\bmedium\b": IN_BFLOAT16, r"\battacks\.Claiming\b": CLAIMED}
    return parts | {symbol for word, symbol in also.items() if re.search(word, str(config))}
