"""Which verbs the laboratory, ``robustfl_bench/lab``, adds: where its folder is absent, so are they."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robustfl_bench.commands.verb import Verb

BENCH = tuple(f"robustfl_bench.commands.lab.{verb}" for verb in ("arena", "decide", "judge", "probe", "resilience"))
"""The modules of its verbs of ``robustfl-bench``, each named as its verb."""


def is_there() -> bool:
    """Whether this installation has the laboratory."""
    return find_spec("robustfl_bench.lab") is not None


def results() -> "tuple[Verb, ...]":
    """Its verbs of ``robustfl-results``; none without the laboratory."""
    names = ("agreement", "arena", "recommend") if is_there() else ()
    return tuple(import_module(f"robustfl_bench.commands.lab.results.{name}").VERB for name in names)
