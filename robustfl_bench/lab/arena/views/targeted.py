"""Attackers with a goal: how often the model answers their samples as they want, and the accuracy that it keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import np
from robustfl_bench.lab.arena.additions import GOALS
from robustfl_bench.lab.arena.decision import BASELINE
from robustfl_bench.lab.arena.panels import REFERENCE, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import SERVER, ArenaRun, settle
from robustfl_bench.lab.arena.words import HALF, said, tabled
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet

FEW = 20
"""A rule withstands an attack if at most FEW percent of the goal samples are answered so, and its score is not below
that of the server's own samples alone."""

_SUCCESS = "attack_success_rate"


@dataclass(frozen=True)
class Targeted:
    """A rule in a panel under attacks with a goal: by attack the success in percent, and the score of the accuracy,
    means over seeds."""

    panel: ArenaPanel
    rule: str
    successes: Mapping[str, float]
    scores: Mapping[str, float]
    seeds: int

    @cached_property
    def worst(self) -> str:
        """The attack with the most success."""
        return max(self.successes, key=lambda attack: self.successes[attack])

    @property
    def success(self) -> float:
        """The most success of an attack."""
        return self.successes[self.worst]

    @property
    def kept(self) -> float:
        """The least score under an attack."""
        return min(self.scores.values())

    @property
    def withstands(self) -> bool:
        """Whether all attacks are withstood."""
        alone = self.panel.server
        return self.success <= FEW and self.kept >= (alone.score.value if alone else HALF)


def targeted(arena: Arena) -> dict[ArenaPanel, list[Targeted]]:
    """The rules of each panel that were run under all goals that any rule met there, the least success first. Raises
    NoRuns if there are none."""
    runs, found = arena.under(*GOALS), dict[ArenaPanel, list[Targeted]]()
    for panel in arena.by_list.values():
        own = [run for run in settle(runs, panel.number)
               if run.partition == panel.partition and run.num_byzantine and run.state != "infeasible"]  # fmt: skip
        met = {run.attack for run in own}
        by_rule = grouped((run.rule, run) for run in own)
        whole = [_targeted(panel, rule, of) for rule, of in by_rule.items() if {run.attack for run in of} == met]
        if whole:
            found[panel] = sorted(whole, key=lambda of: (of.success, -of.kept))
    if not found:
        raise NoRuns(said("views.not_targeted", arena=arena, GOALS=GOALS))
    return found


def _targeted(panel: ArenaPanel, rule: str, runs: list[ArenaRun]) -> Targeted:
    """A rule by its runs. A model that diverged gives no answer that anybody wants."""
    by_attack = grouped((run.attack, run) for run in runs)
    return Targeted(
        panel,
        rule,
        {attack: fmean(100 * run.last.get(_SUCCESS, 0.0) for run in of) for attack, of in by_attack.items()},
        {attack: panel.scaled(fmean(100 * run.accuracy for run in of)) for attack, of in by_attack.items()},
        min(map(len, by_attack.values())),
    )


def sheets_of_targeted(arena: Arena) -> list[Sheet]:
    pages = []
    for panel, rules in targeted(arena).items():
        goals = [goal for goal in GOALS if goal in rules[0].successes]
        records = [{"of": of, "by_goal": [of.successes[goal] for goal in goals]} for of in rules]
        pages.append(tabled("views.targeted", records, arena=arena, panel=panel, goals=goals, rules=rules,
                            stand=[of.rule for of in rules if of.withstands], FEW=FEW, BASELINE=BASELINE, SERVER=SERVER,
                            plain=next((of for of in rules if of.rule == REFERENCE), None)))  # fmt: skip
    return pages


def picture_of_targeted(arena: Arena, frame: Frame) -> Figure:
    """The most success of an attack on each rule in each panel, the least on top; framed where the rule withstands."""
    found = [{of.rule: of for of in rules} for rules in targeted(arena).values()]
    mean = {rule: fmean(of[rule].success for of in found if rule in of) for of in found for rule in of}
    rules = sorted(mean, key=lambda rule: mean[rule])
    numbers = np.array([[of[rule].success if rule in of else math.nan for of in found] for rule in rules])
    framed = frozenset((row, column) for row, rule in enumerate(rules) for column, of in enumerate(found)
                       if rule in of and of[rule].withstands)  # fmt: skip
    heading = (
        f"Arena {arena.track.name}, attackers with a goal; framed: kept from it, at a score not below the server's"
    )
    panel = heat.HeatPanel("", rules, [arena.titled(of) for of in targeted(arena)], numbers, framed)
    return heat.draw([panel], heat.Scale("Most success of an attack [%]", 0, 100), "", "", heading, frame.at("column"))
