"""The rules' order: its agreement between seeds and sizes, and whether ``worst`` is the worst attack."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from robustfl_bench.lab.arena.panels import ArenaPanel
from robustfl_bench.lab.arena.track import HONEST, NONE, ArenaRun
from robustfl_bench.read.runs.statistics import rank_correlation

WORST = "worst"
"""The attack that tries a list of attacks in every round."""

NEAR = 2  # points

Condition = TypeVar("Condition", str, tuple[str, str, str])


def stability(row: Sequence[ArenaPanel], top: int | None = None) -> tuple[float, int, int] | None:
    """Agreement of the rules' order between each seed and the mean of the others: the mean of Spearman's rank
    correlations, the number of rules and that of seeds. None with fewer than two seeds, or three rules.

    The order is that by the mean over partitions of the least accuracy under any attack. With ``top``, of so many rules
    that are best over all seeds.
    """
    by_seed: dict[str, dict[str, float]] = {}
    for rule in row[0].standings if row else ():
        places = [panel.standings[rule].by_seed for panel in row if rule in panel.standings]
        shared = set.intersection(*map(set, places)) if len(places) == len(row) else set()
        by_seed[rule] = {seed: fmean(place[seed] for place in places) for seed in shared}
    rules, seeds = shared_conditions(by_seed)
    if len(seeds) < 2 or len(rules) < 3:
        return None
    rules = sorted(rules, key=lambda rule: -fmean(by_seed[rule][seed] for seed in seeds))[:top]
    correlations = []
    for seed in seeds:
        others = [fmean(by_seed[rule][other] for other in seeds if other != seed) for rule in rules]
        correlations.append(rank_correlation([by_seed[rule][seed] for rule in rules], others))
    return fmean(correlations), len(rules), len(seeds)


def likeness(runs: Iterable[ArenaRun], others: Sequence[ArenaRun]) -> tuple[float, int] | None:
    """Spearman's rank correlation of the rules' worst cases in ``others`` with those in ``runs`` of the same
    partitions, attacks and seeds, and the number of rules; None for fewer than three.

    The worst case is the least over attacks of the means over seeds, then the mean over partitions.
    """
    first, second = ({_condition(run): run.accuracy for run in of if is_attacked(run)} for of in (runs, others))
    held: dict[str, dict[tuple[str, str, str], float]] = defaultdict(dict)
    for (rule, *condition), accuracy in second.items():
        if (rule, *condition) in first:
            held[rule][condition[0], condition[1], condition[2]] = accuracy
    rules, conditions = shared_conditions(held)
    if len(rules) < 3:
        return None

    def worst(of: Mapping[tuple[str, str, str, str], float], rule: str) -> float:
        cells: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for partition, attack, seed in conditions:
            cells[partition][attack].append(of[rule, partition, attack, seed])
        return fmean(min(map(fmean, attacks.values())) for attacks in cells.values())

    orders = [[worst(of, rule) for rule in rules] for of in (first, second)]
    return rank_correlation(*orders), len(rules)


def is_attacked(run: ArenaRun) -> bool:
    """Whether a run was measured under an attack."""
    return run.attack not in (NONE, HONEST) and run.state != "infeasible"


def _condition(run: ArenaRun) -> tuple[str, str, str, str]:
    return run.rule, run.partition, run.attack, run.seed


def shared_conditions(
    numbers: Mapping[str, Mapping[Condition, float]],
) -> tuple[list[str], list[Condition]]:
    """Rules, and the conditions that all of them were run in. Conditions are those of one rule; the choice has the most
    pairs."""
    best: tuple[list[str], list[Condition]] = ([], [])
    for held in {frozenset(of) for of in numbers.values()}:
        rules = [rule for rule, of in numbers.items() if held <= of.keys()]
        if (len(rules) * len(held), len(rules)) > (len(best[0]) * len(best[1]), len(best[0])):
            best = rules, sorted(held)
    return best


def strongest(runs: Sequence[ArenaRun]) -> tuple[int, int, int] | None:
    """The number of conditions (rule, partition, seed) in which no single attack does more harm than ``worst``, of
    those in which none does so by more than NEAR points, and of all. None without any."""
    adaptive: dict[tuple[str, str, str], float] = {}
    single: dict[tuple[str, str, str], float] = {}
    for run in runs:
        if is_attacked(run):
            least, case = adaptive if run.attack == WORST else single, (run.rule, run.partition, run.seed)
            least[case] = min(least.get(case, math.inf), 100 * run.accuracy)
    behind = [adaptive[case] - single[case] for case in adaptive if case in single]
    return (sum(by <= 0 for by in behind), sum(by <= NEAR for by in behind), len(behind)) if behind else None
