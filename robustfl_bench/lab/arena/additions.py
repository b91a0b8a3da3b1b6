"""What an attack adds to the list of a track: the rules whose worst case it makes worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.track import HONEST, NONE, ArenaRun
from robustfl_bench.lab.arena.words import bounds, cells, listed, number
from robustfl_bench.read.runs.statistics import Estimate, bootstrapped, chance_if_equal, least, rejected
from robustfl_bench.read.tables.sheets import Printed, Sheet

if TYPE_CHECKING:
    import numpy as np

    from robustfl_bench.lab.arena.panels import Arena, ArenaPanel

Column = Mapping[str, Mapping[str, float]]
"""Accuracies in percent under the new attack, by rule and seed."""


@dataclass(frozen=True)
class Addition:
    """A rule in a panel under a new attack, ``by``, over the seeds that have it and the whole list.

    ``least`` is the rule's worst case under the list, reached by ``attack``; ``own`` its accuracy under the new attack;
    both in percent, means over seeds. ``harm`` is their difference, positive where the new attack is worse. ``score``
    is ``own`` as a score of the panel.
    """

    panel: ArenaPanel
    rule: str
    by: str
    attack: str
    least: float
    own: float
    harm: Estimate
    score: Estimate

    @property
    def words(self) -> str:
        """The score with its interval."""
        return f"{self.score.value:.0f}{bounds(self.panel.interval(self))}"


def additions(panel: ArenaPanel, runs: Iterable[ArenaRun], name: str, column: Column) -> list[Addition]:
    """The rules of a panel, with its ``runs`` under the list, under the new attack of this ``name``; without those that
    lack an attack of the list in all seeds."""
    import numpy as np

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
        numbers = np.vstack([[column[rule][seed] for seed in seeds], listed_ones])
        harm = bootstrapped(numbers, _less)
        means = dict(zip(by_attack, listed_ones.mean(axis=1).tolist(), strict=True))
        worst = min(means, key=lambda attack: means[attack])
        score = panel.score(numbers[:1])
        found.append(Addition(panel, rule, name, worst, means[worst], float(numbers[0].mean()), harm, score))
    return found


def _less(means: np.ndarray) -> np.ndarray:
    """The coefficients of the least of the means but for the first, less the first."""
    import numpy as np

    return np.hstack([np.full((len(means), 1), -1.0), least(means[:, 1:])])


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
    if not found:
        return f"{name} was run against no rule that has the whole list"
    worse = sum(of.harm.value > 0 for of in found)
    if single := sum(of.harm.n < 2 for of in found):
        return (
            f"{name} is below the list's worst case in {worse} of {len(found)} cases (rule and panel), by "
            f"{fmean(of.harm.value for of in found):.0f} points on average. {single} of them have one seed, which no "
            "test can use"
        )
    if not proven:
        return (
            f"{name} adds nothing that the seeds show: it is below the list's worst case in {worse} of {len(found)} "
            "cases (rule and panel), and surely in none"
        )
    most = max(proven, key=lambda of: of.harm.value)
    return (
        f"{name} adds to the list: the worst case is surely lower in {len(proven)} of {len(found)} cases (rule and "
        f"panel), by up to {most.harm.value:.1f} points ({most.rule}, {most.panel.partition})"
    )


def idle(arena: Arena, found: Sequence[Addition]) -> list[str]:
    """The attacks of the list that would be the worst for none of these rules if the new one joined it."""
    needed = {of.attack for of in found if of.harm.value <= 0}
    return [attack for attack in arena.track.swept["attack"] if attack not in (NONE, *needed)]


def sheet(arena: Arena, name: str, found: Sequence[Addition]) -> Sheet:
    """The new attack against the list, in each of these cases."""
    proven = sure(found)
    rows = []
    for of in found:
        interval = of.harm.interval()
        words = f" ({interval.low:.1f} to {interval.high:.1f})" if interval else ""
        rows.append([
            *cells([arena.titled(of.panel), of.rule, number(of.least), of.attack, number(of.own)]),
            Printed(number(of.harm.value) + words, best=of in proven),
            *cells([number(of.panel.scaled(of.least)), of.words, str(of.harm.n)]),
        ])  # fmt: skip
    return Sheet(
        above=[f"Attack {name} against the list of arena {arena.track.name}", f"{verdict(name, found)}."],
        heading=["panel", "rule", "worst of the list", "by", name, "worse by", "score", "score with it", "seeds"],
        rows=rows,
        labels=2,
        bold="surely worse than the whole list",
        footnotes=[
            "accuracies in percent, means over seeds. worse by: the list's worst case less the accuracy under this "
            "attack, in points, with its 95% interval over seeds",
            f"score, score with it: under the list and under {name}, in percent of what honest clients alone reach, "
            "over the seeds of both",
            "surely: tests at 5% over seeds, shared among three looks where the track has them, and corrected for the "
            "number of rules in a panel (Benjamini and Hochberg)",
        ],
        report=[
            f"With it, these of the list would be the worst for none of the rules above: {listed(idle(arena, found))}."
        ]
        if found
        else [],
    )
