"""What an attack adds to the list of a track: the rules whose worst case it makes worse.

Attacks that search for what harms the rule they meet are run against the best rules of a panel, in an experiment of
their own, ``TRACK_ATTACK``, since one run costs dozens of others. They count as every attack of the track's list does:
by their mean over seeds, and where it is the least, it is the worst case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.base.late import np
from robustfl_bench.lab.arena.track import HONEST, NONE, ArenaRun, settle
from robustfl_bench.lab.arena.words import bounds, said, tabled
from robustfl_bench.read.runs.statistics import Estimate, bootstrapped, chance_if_equal, least, rejected
from robustfl_bench.read.tables.sheets import Sheet

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import Arena, ArenaPanel, Standing

SEARCHING = ("planned", "blindspot")
"""The attacks that search, the strongest last; each is the ending of an experiment's name."""

GOALS = ("backdoor", "backdoor_1", "dba", "neurotoxin", "edge_case")
"""The attacks whose goal is an answer to certain samples."""

Column = Mapping[str, Mapping[str, float]]
"""Accuracies in percent under the new attack, by rule and seed."""


@dataclass(frozen=True)
class Addition:
    """A rule in a panel under a new attack, ``by``, over the seeds that have it and the whole list.

    ``least`` is the rule's worst case under the list, reached by ``attack``; ``own`` its accuracy under the new attack,
    the mean of ``by_seed``; all in percent, means over seeds. ``harm`` is their difference, positive where the new
    attack is worse. ``score`` is ``own`` as a score of the panel.
    """

    panel: ArenaPanel
    rule: str
    by: str
    attack: str
    least: float
    by_seed: Mapping[str, float]
    harm: Estimate
    score: Estimate

    @property
    def own(self) -> float:
        """The accuracy under the new attack, the mean over seeds."""
        return fmean(self.by_seed.values())

    @property
    def words(self) -> str:
        """The score with its interval."""
        return f"{self.score.value:.0f}{bounds(self.panel.interval(self))}"


def additions(panel: ArenaPanel, runs: Iterable[ArenaRun], name: str, column: Column) -> list[Addition]:
    """The rules of a panel, with its ``runs`` under the list, under the new attack of this ``name``; without those that
    lack an attack of the list in all seeds."""
    held: dict[str, dict[str, dict[str, float]]] = {rule: {} for rule in column}
    for run in runs:
        if run.rule in held and run.attack not in (NONE, HONEST):
            held[run.rule].setdefault(run.attack, {})[run.seed] = 100 * run.accuracy
    found = []
    for rule, by_attack in held.items():
        seeds = sorted(set.intersection(set(column[rule]), *map(set, by_attack.values())))
        if len(by_attack) < panel.attacks or not seeds:
            continue
        listed_ones = np.array([[of[seed] for seed in seeds] for of in by_attack.values()])
        own = {seed: column[rule][seed] for seed in seeds}
        numbers = np.vstack([[*own.values()], listed_ones])
        harm = bootstrapped(numbers, _less)
        means = dict(zip(by_attack, listed_ones.mean(axis=1).tolist(), strict=True))
        worst = min(means, key=lambda attack: means[attack])
        score = panel.score(numbers[:1])
        found.append(Addition(panel, rule, name, worst, means[worst], own, harm, score))
    return found


def _less(means: np.ndarray) -> np.ndarray:
    """The coefficients of the least of the means but for the first, less the first."""
    return np.hstack([np.full((len(means), 1), -1.0), least(means[:, 1:])])


def searches(panel: ArenaPanel, runs: Sequence[ArenaRun], attack: str, searched: Sequence[ArenaRun]) -> list[Addition]:
    """The rules of a panel that were run under one of SEARCHING, the best by the list first. ``runs`` are those of the
    panel under the list, and ``searched`` those of the track under the attack."""
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
            standing = standings.get(of.rule, panel.standings[of.rule])
            standing = replace(standing, beyond={**standing.beyond, of.by: of.own})
            if of.own < standing.worst:
                standing = replace(standing, worst=of.own, attack=of.by, score=of.score, under=of.by_seed)
            standings[of.rule] = standing
    return standings


def by_rule(panel: ArenaPanel, found: Iterable[Addition]) -> Mapping[str, Addition]:
    """Of the cases that are of a panel, the one that leaves least of each rule."""
    lowest: dict[str, Addition] = {}
    for of in found:
        if _is_of(of, panel) and (of.rule not in lowest or of.own < lowest[of.rule].own):
            lowest[of.rule] = of
    return lowest


def _is_of(of: Addition, panel: ArenaPanel) -> bool:
    return (of.panel.number, of.panel.partition) == (panel.number, panel.partition)


def sure(found: Sequence[Addition]) -> list[Addition]:
    """Those whose worst case the attack surely makes worse: tests at 5% over seeds, shared among the looks of the
    panel, and corrected for their number in it."""
    harmed = set[int]()
    for panel in dict.fromkeys(of.panel for of in found):
        harmed |= rejected({place: chance_if_equal(of.harm, Estimate(0.0, 0.0, of.harm.n))
                            for place, of in enumerate(found) if of.panel is panel}, panel.level)  # fmt: skip
    return [of for place, of in enumerate(found) if place in harmed and of.harm.value > 0]


def verdict(name: str, found: Sequence[Addition]) -> str:
    """Whether the attack adds to the list, in a sentence."""
    proven = sure(found)
    return said(
        "tables.verdict",
        name=name,
        found=found,
        worse=sum(of.harm.value > 0 for of in found),
        single=sum(of.harm.n < 2 for of in found),
        points=fmean(of.harm.value for of in found) if found else 0,
        proven=proven,
        most=max(proven, key=lambda of: of.harm.value, default=None),
    )


def idle(arena: Arena, found: Sequence[Addition]) -> list[str]:
    """The attacks of the list that would be the worst for none of these rules if the new one joined it."""
    needed = {of.attack for of in found if of.harm.value <= 0}
    return [attack for attack in arena.track.swept["attack"] if attack not in (NONE, *needed)]


def sheet(
    arena: Arena,
    name: str,
    found: Sequence[Addition],
    carried_out: Mapping[tuple[int, str, str], Sequence[str]] | None = None,
) -> Sheet:
    """The new attack against the list, in each of these cases; with what the attackers ``carried_out``, if given, by
    number, partition and rule."""
    proven, carried = sure(found), [] if carried_out is None else ["carried out"]
    records = [{"of": of, "is_proven": of in proven, "interval": of.harm.interval(), "carried":
                [(carried_out or {}).get((of.panel.number, of.panel.partition, of.rule), ["unknown"]) for _ in carried]}
               for of in found]  # fmt: skip
    return tabled("tables.addition", records, arena=arena, name=name, found=found, verdict=verdict(name, found),
                  carried_out=carried, idle=idle(arena, found))  # fmt: skip
