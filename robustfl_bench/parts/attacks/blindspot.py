"""Attackers who search for what a rule does not see: pushes in disguise all through the run, and plans (ours)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.base import Attack, PlanView
from robustfl_bench.parts.attacks.planned import Planned
from robustfl_bench.parts.attacks.pool import POOL, SEARCHES, Entries, members, prices
from robustfl_bench.parts.attacks.steered import HEADINGS, Steered


@dataclass(frozen=True)
class Blindspot(Planned):
    """The attackers search for a push that the rule lets pass all through the run, and carry out what does most harm.

    They simulate the whole training under the attacks of a pool, as ``planned`` does, and under ``steered`` pushes, one
    for each of the ``steered.HEADINGS``: where ``planned`` knows attacks, a push asks the rule in every round which of
    many disguises lets the aggregate go farthest along its heading. Each disguise looks honest in a kind of statistic
    by which rules judge, none is made for a rule. The attackers carry out the most harmful of all, so by their own
    estimate the run ends no better than under any attack of the pool.

    ``budget`` bounds what is simulated, in trainings without attack: an attack that asks nothing costs at most 0.7, a
    question ``question`` of a round, of which an aggregation is a part. The run itself asks once more what a simulation
    asks. ``knowledge=own`` leaves the attackers what it leaves those of ``planned``. Neither sees the server's data,
    only the rule's answers.

    ``attack_policy`` in metrics.csv is the index of the attack in the pool, followed by those of the headings.
    """

    leaders: Annotated[int, at_least(1)] = 3
    """the most attacks that are simulated again"""
    replans: Annotated[int, at_least(0)] = 0
    """later plans"""
    pool: Entries | None = None
    """the attacks beside the pushes, by name or as my_module:MyAttack; null: ``pool.POOL`` without ``pool.SEARCHES``"""
    best: Annotated[int, at_least(1)] = 5
    """disguises that a push asks about in every round, the best of those known"""
    others: Annotated[int, at_least(0)] = 3
    """further ones, which take turns"""
    question: Annotated[float, at_least(0)] = 0.5
    """what a question costs, in rounds without attack: 0.2 for most rules, 0.6 for the slowest"""

    def _simulable(self, view: PlanView) -> tuple[Attack, ...]:
        return *self._published(), *self._pushes(view)

    def _costs(self, view: PlanView) -> tuple[float, ...]:
        quiet = prices(self._pushes(view))
        asked = [push.questions(view.rounds) / view.rounds for push in self._pushes(view)]
        return *prices(self._published()), *(
            cost + self.question * each for cost, each in zip(quiet, asked, strict=True)
        )

    def _published(self) -> tuple[Attack, ...]:
        return members(tuple(name for name in POOL if name not in SEARCHES) if self.pool is None else self.pool)

    def _pushes(self, view: PlanView) -> tuple[Steered, ...]:
        return tuple(Steered(heading, self.best, self.others, view.layer_sizes) for heading in HEADINGS)
