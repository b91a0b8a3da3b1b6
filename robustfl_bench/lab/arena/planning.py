"""Attackers who plan (``attack=planned``) against the best rules of a panel.

Their runs have an experiment of their own, ``TRACK_planned``, since one costs dozens of others. They count as every
attack of the track's list does: by their mean over seeds, and where it is the least, it is the worst case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.additions import Addition, additions
from robustfl_bench.lab.arena.track import ArenaRun, settle

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import ArenaPanel, Standing

NAME = "planned"
"""The attack, and the ending of the experiment's name."""

MEANING = f"by {NAME}: attackers who plan, which were run against the best rules alone, leave less than the whole list"
"""What it means that this attack is the worst case."""


def cases(panel: ArenaPanel, runs: Sequence[ArenaRun], plans: Sequence[ArenaRun]) -> list[Addition]:
    """The rules of a panel that were run under attackers who plan, the best by the list first. ``runs`` are those of
    the panel under the list, and ``plans`` those of the track under attackers who plan."""
    column: dict[str, dict[str, float]] = {}
    for run in settle(plans, panel.number):
        if run.num_byzantine and run.partition == panel.partition and run.state != "infeasible":
            column.setdefault(run.rule, {})[run.seed] = 100 * run.accuracy
    return additions(panel, runs, {rule: column[rule] for rule in panel.standings if rule in column})


def counted(panel: ArenaPanel, found: Iterable[Addition]) -> dict[str, Standing]:
    """The rules of a panel that were run under attackers who plan, these among their attacks: the worst case is the
    least of all means. ``found`` are the cases of all panels."""
    return {of.rule: _with(panel.standings[of.rule], of) for of in by_rule(panel, found).values()}


def _with(standing: Standing, plan: Addition) -> Standing:
    """A rule's standing with attackers who plan among its attacks."""
    standing = replace(standing, beyond={NAME: plan.own})
    if plan.own >= standing.worst:
        return standing
    return replace(standing, worst=plan.own, attack=NAME, score=plan.score)


def by_rule(panel: ArenaPanel, found: Iterable[Addition]) -> Mapping[str, Addition]:
    """Those of the cases that are of a panel, by rule."""
    return {of.rule: of for of in found if (of.panel.number, of.panel.partition) == (panel.number, panel.partition)}
