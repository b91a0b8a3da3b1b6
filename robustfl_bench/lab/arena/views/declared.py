"""The price of a wrong f: the server assumes another number of attackers than there are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.order import is_attacked
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import ArenaRun
from robustfl_bench.lab.arena.views.base import ArenaView
from robustfl_bench.lab.arena.words import cells, listed, number
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR = 5.0  # points of accuracy


@dataclass(frozen=True)
class WrongF:
    """The worst case in percent of each rule by the number of attackers that it assumes: the least over ``attacks`` of
    the means over seeds, then the mean over ``partitions``. All with ``number`` attackers and the same attacks."""

    number: int
    attacks: tuple[str, ...]
    partitions: tuple[str, ...]
    worst: dict[str, dict[int, float]]

    @property
    def assumed(self) -> list[int]:
        """The numbers of attackers that were assumed."""
        return sorted({f for by_f in self.worst.values() for f in by_f})


def wrong_assumptions(runs: Iterable[ArenaRun]) -> list[WrongF]:
    """For each number of attackers with runs of a wrong f; the right f has the same partitions, attacks and seeds."""
    attacked = [run for run in runs if is_attacked(run) and run.declared is not None]
    numbers = sorted({run.num_byzantine for run in attacked if run.declared != run.num_byzantine})
    return [_wrong_assumption([run for run in attacked if run.num_byzantine == of], of) for of in numbers]


def _wrong_assumption(runs: list[ArenaRun], of: int) -> WrongF:
    wrong = [run for run in runs if run.declared != of]
    conditions = {(run.partition, run.attack, run.seed) for run in wrong}
    rules = {run.rule for run in wrong}
    held: dict[tuple[str, int], dict[str, dict[str, list[float]]]] = {}
    for run in runs:
        if run.rule in rules and (run.partition, run.attack, run.seed) in conditions and run.declared is not None:
            by_attack = held.setdefault((run.rule, run.declared), {}).setdefault(run.partition, {})
            by_attack.setdefault(run.attack, []).append(100 * run.accuracy)
    worst: dict[str, dict[int, float]] = {rule: {} for rule in sorted(rules)}
    for (rule, declared), partitions in held.items():
        worst[rule][declared] = fmean(min(map(fmean, attacks.values())) for attacks in partitions.values())
    attacks = tuple(sorted({run.attack for run in wrong}))
    return WrongF(of, attacks, tuple(sorted({run.partition for run in wrong})), worst)


def answer(arena: Arena) -> str:
    """How many rules keep their worst case with each wrong f."""
    sentences = []
    for found in wrong_assumptions(arena.runs):
        for f in found.assumed:
            changes = {rule: by_f[f] - by_f[found.number] for rule, by_f in found.worst.items()
                       if f in by_f and found.number in by_f}  # fmt: skip
            if f == found.number or not changes:
                continue
            less = sorted((rule for rule in changes if changes[rule] < -NEAR), key=lambda rule: changes[rule])
            more = sorted((rule for rule in changes if changes[rule] > NEAR), key=lambda rule: -changes[rule])
            sentences.append(
                f"where there are {found.number} attackers and the server assumes {f}, the worst case changes by "
                f"{fmean(changes.values()):+.0f} points on average: it falls by more than {NEAR:g} for {len(less)} of "
                f"{len(changes)} rules ({listed(less, 3)}) and rises so for {len(more)} ({listed(more, 3)})"
            )
    return "; ".join(sentences)


def _sheets(arena: Arena) -> list[Sheet]:
    pages = []
    for found in _found(arena):
        pages.append(Sheet(
            above=[f"{arena.track.title(found.number)}: the price of a wrong f", f"{answer(arena)}."],
            heading=["rule", *(f"f = {f}" for f in found.assumed)],
            rows=[cells([rule, *(number(by_f.get(f, math.nan)) for f in found.assumed)])
                  for rule, by_f in found.worst.items()],
            footnotes=[
                f"worst case [%] of {listed(found.attacks)} on {listed(found.partitions)}, with {found.number} "
                "attackers, if the rule assumes f of them; empty where it cannot run"
            ],
        ))  # fmt: skip
    return pages


def _found(arena: Arena) -> list[WrongF]:
    if not (found := wrong_assumptions(arena.runs)):
        raise NoRuns(
            f"no run of arena {arena.track.name} with a wrong f; "
            f"robustfl-bench -m +experiment={arena.track.experiment}_declared makes them"
        )
    return found


def _picture(arena: Arena, frame: Frame) -> Figure:
    import numpy as np

    shown = []
    for found in _found(arena):
        rules = sorted(found.worst, key=lambda rule: -found.worst[rule].get(found.number, 0.0))
        values = np.array([[found.worst[rule].get(f, np.nan) for f in found.assumed] for rule in rules])
        right = found.assumed.index(found.number)
        marked = frozenset((place, right) for place in range(len(rules)))
        title = f"{found.number} attackers (framed: the right f)"
        shown.append(heat.HeatPanel(title, rules, [f"f = {f}" for f in found.assumed], values, marked))
    heading = f"Arena {arena.track.name}: the worst case if the server assumes f attackers"
    return heat.draw(shown, heat.Scale("Test accuracy [%]", 0, 100), "", "", heading, frame)


VIEW = ArenaView("declared", "the price of a wrong f", _sheets, _picture)
