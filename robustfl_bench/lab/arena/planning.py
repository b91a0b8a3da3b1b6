"""Attacks that search for what harms the rule they meet (``planned``, ``blindspot``), run against the best rules of a
panel.

The runs of each have an experiment of their own, ``TRACK_ATTACK``, since one costs dozens of others. They count as
every attack of the track's list does: by their mean over seeds, and where it is the least, it is the worst case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.additions import Addition, additions
from robustfl_bench.lab.arena.track import ArenaRun, settle

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import ArenaPanel, Standing

SEARCHING = ("planned", "blindspot")
"""The attacks, the strongest last; each is the ending of an experiment's name."""

MEANING = (
    f"by {' or '.join(SEARCHING)}: attackers who search for what harms the rule, and were run against the best rules "
    "alone, leave less than the whole list"
)
"""What it means that one of them is the worst case."""


def cases(panel: ArenaPanel, runs: Sequence[ArenaRun], attack: str, searched: Sequence[ArenaRun]) -> list[Addition]:
    """The rules of a panel that were run under one of the SEARCHING, the best by the list first. ``runs`` are those of
    the panel under the list, and ``searched`` those of the track under the attack."""
    column: dict[str, dict[str, float]] = {}
    for run in settle(searched, panel.number):
        if run.num_byzantine and run.partition == panel.partition and run.state != "infeasible":
            column.setdefault(run.rule, {})[run.seed] = 100 * run.accuracy
    return additions(panel, runs, attack, {rule: column[rule] for rule in panel.standings if rule in column})


def counted(panel: ArenaPanel, found: Iterable[Addition]) -> dict[str, Standing]:
    """The rules of a panel that were run under SEARCHING, these among their attacks: the worst case is the least of all
    means. ``found`` are the cases of all panels."""
    standings: dict[str, Standing] = {}
    for of in found:
        if _is_of(of, panel):
            standings[of.rule] = _with(standings.get(of.rule, panel.standings[of.rule]), of)
    return standings


def _with(standing: Standing, of: Addition) -> Standing:
    """A rule's standing with one of the SEARCHING among its attacks."""
    standing = replace(standing, beyond={**standing.beyond, of.by: of.own})
    if of.own >= standing.worst:
        return standing
    return replace(standing, worst=of.own, attack=of.by, score=of.score)


def by_rule(panel: ArenaPanel, found: Iterable[Addition]) -> Mapping[str, Addition]:
    """Of the cases that are of a panel, the one that leaves least of each rule."""
    least: dict[str, Addition] = {}
    for of in found:
        if _is_of(of, panel) and (of.rule not in least or of.own < least[of.rule].own):
            least[of.rule] = of
    return least


def _is_of(of: Addition, panel: ArenaPanel) -> bool:
    return (of.panel.number, of.panel.partition) == (panel.number, panel.partition)
