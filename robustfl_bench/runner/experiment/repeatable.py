"""Whether the numbers of a run with parts from outside this package follow from its seed.

Parts of this package draw from named streams (``base.seeding``), which the tests check. Where a run has other parts,
the global random generators are watched, and its first round in a process is computed twice.
"""

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from robustfl_bench.runner.experiment.outside_code import OutsideCode

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.parts.protocols.state import Round, State
    from robustfl_bench.train.federation import Federation
    from robustfl_bench.train.loop import Step

UNKNOWN = "unknown"
"""Stands for the clock, or a generator without a seed: a round has two results, and no global generator was used."""

_found: dict[str, dict[str, None]] = defaultdict(dict)
"""What ``unseeded`` has found for runs with the same parts from outside, by these parts."""


def unseeded(code: OutsideCode) -> list[str]:
    """What the parts of a run from outside used in this process, and the seed does not fix: global generators, UNKNOWN,
    and functions that answer otherwise in another process; empty if nothing."""
    return list(dict.fromkeys([*_found.get(str(code), ()), *code.varying]))


def remark(code: OutsideCode, found: Iterable[object]) -> str:
    """One line on a run whose parts from outside were found ``unseeded``."""
    return (
        f"{uses(code, found)}: the same command gives other numbers each time; draw from the rng of the view, or "
        "from robustfl_bench.base.seeding.generator(seed, name)"
    )


def uses(code: OutsideCode, found: Iterable[object]) -> str:
    """What the parts from outside were found to use, in words."""
    words = ["the clock or a generator without a seed" if name == UNKNOWN else str(name) for name in found]
    return f"{code} uses {' and '.join(words)}, which seed does not fix"


@contextmanager
def watched(code: OutsideCode) -> Iterator[None]:
    """Find the global generators that are used within the context; without parts from outside, do nothing."""
    if not code.groups:
        yield
        return
    from robustfl_bench.base.global_draws import GlobalGenerators

    before = GlobalGenerators()
    try:
        yield
    finally:
        _found[str(code)] |= dict.fromkeys(before.drawn())


def step_of(code: OutsideCode) -> "Step":
    """The step from round to round of a run; with parts from outside, one that finds what is ``unseeded``."""
    from robustfl_bench.train import rounds

    if not code.groups:
        return rounds.step
    tried = False

    def step(federation: "Federation", state: "State") -> "tuple[State, Round | None]":
        nonlocal tried
        trial = None if tried else _trial(federation, state)
        tried = True
        with watched(code):
            after, happened = rounds.step(federation, state)
        if trial is not None and not _equal(trial, after):
            _found[str(code)][UNKNOWN] = None
        return after, happened

    return step


def _trial(federation: "Federation", state: "State") -> "State":
    """The state after the next round, with the given state and the global generators left as they are."""
    from robustfl_bench.base.global_draws import GlobalGenerators
    from robustfl_bench.train import rounds

    generators = GlobalGenerators()
    try:
        return rounds.step(federation, copy.deepcopy(state))[0]
    finally:
        generators.restore()


def _equal(first: "State", second: "State") -> bool:
    """Whether two states are equal to the bit, nan to nan."""
    from robustfl_bench.train.contract import alike

    return alike(first.stored(), second.stored())
