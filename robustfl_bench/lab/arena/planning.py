"""Attackers who plan (``attack=planned``) against the best rules of a panel.

Their runs have an experiment of their own, ``TRACK_planned``, since one costs dozens of others. Where they surely do
more harm than the whole list of the track, they are the worst case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.additions import Addition, additions, sure
from robustfl_bench.lab.arena.track import ArenaRun, settle

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import ArenaPanel, Standing

NAME = "planned"
"""The attack, and the ending of the experiment's name."""

MEANING = f"by {NAME}: attackers who plan, which were run against the best rules, do surely more harm than all others"
"""What it means that this attack is the worst case."""


def cases(panel: ArenaPanel, runs: Sequence[ArenaRun], plans: Sequence[ArenaRun]) -> list[Addition]:
    """The rules of a panel that were run under attackers who plan, the best by the list first. ``runs`` are those of
    the panel under the list, and ``plans`` those of the track under attackers who plan."""
    column: dict[str, dict[str, float]] = {}
    for run in settle(plans, panel.number):
        if run.num_byzantine and run.partition == panel.partition and run.state != "infeasible":
            column.setdefault(run.rule, {})[run.seed] = 100 * run.accuracy
    return additions(panel, runs, {rule: column[rule] for rule in panel.standings if rule in column})


def lowered(panel: ArenaPanel, found: Sequence[Addition]) -> dict[str, Standing]:
    """The rules of a panel whose worst case attackers who plan surely lower, with this as their worst case; ``found``
    are the cases of all panels."""
    return {of.rule: replace(panel.standings[of.rule], worst=of.own, attack=NAME, score=of.score)
            for of in sure([*by_rule(panel, found).values()])}  # fmt: skip


def by_rule(panel: ArenaPanel, found: Iterable[Addition]) -> Mapping[str, Addition]:
    """Those of the cases that are of a panel, by rule."""
    return {of.rule: of for of in found if (of.panel.number, of.panel.partition) == (panel.number, panel.partition)}
