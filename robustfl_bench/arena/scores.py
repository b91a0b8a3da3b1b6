"""Scores of a rule over the runs of a track."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeVar

from robustfl_bench.arena.track import BACKDOOR, HONEST, NONE, ArenaRun
from robustfl_bench.runs.statistics import Interval, Ranks, interval, paired, ranks

WORST = "worst"
NEAR = 2  # points
REFERENCE = "average"  # the rule without attack that recalls are compared with

DIGITS = 6
"""Decimals by which accuracies are ranked: files keep eight digits, whose rounding would split ties."""

Condition = TypeVar("Condition", str, tuple[str, str, str])

Place = tuple[str, str]
"""A partition and a seed."""


@dataclass(frozen=True)
class Score:
    """The score of a rule; all numbers in percent, means over partitions and seeds, nan where runs are missing.

    ``worst`` is the least accuracy under any attack: of each partition and seed that has most attacks the least, then
    the mean over partitions, then over seeds with its interval. ``clean`` is the accuracy without attack, in the same
    places where it is known there. ``attack`` is the attack that does most harm most often, in ``share`` of these
    places. ``recall_drop`` is the largest max recall drop under any attack there, against the plain mean without
    attack; ``backdoor`` the success of the backdoor; ``skew`` by how much the accuracy without attack falls from iid to
    pathological data. ``helping`` are attacks under which the accuracy is above that without attack, and ``stronger``
    single attacks under which it is below that under ``worst``, where that is above guessing: both with the paired
    interval of the difference, which excludes 0. ``cells`` counts the conditions (partition, attack, seed) that were
    run, ``attacked`` those of them with an attack.
    """

    rule: str
    clean: float = math.nan
    worst: float = math.nan
    spread: Interval | None = None
    attack: str = ""
    share: float = math.nan
    recall_drop: float = math.nan
    backdoor: float = math.nan
    skew: float = math.nan
    helping: Mapping[str, Interval] = field(default_factory=dict)
    stronger: Mapping[str, Interval] = field(default_factory=dict)
    diverged: int = 0
    infeasible: bool = False
    cells: int = 0
    attacked: int = 0
    by_seed: Mapping[str, float] = field(default_factory=dict)


def scores(runs: Sequence[ArenaRun]) -> dict[str, Score]:
    """The score of each rule, by its name; ``runs`` are those with one number of attackers."""
    by_rule: dict[str, list[ArenaRun]] = defaultdict(list)
    for run in runs:
        by_rule[run.rule].append(run)
    reference = {(run.partition, run.seed): run.recall for run in by_rule[REFERENCE] if run.attack == NONE}
    return {rule: _score(rule, of, reference) for rule, of in by_rule.items() if of}


def in_order(score_of: Mapping[str, Score], attacked: int) -> list[Score]:
    """The rules by their worst case, the best first: those with all ``attacked`` cells, then those with fewer."""
    rules = [score for score in score_of.values() if score.rule != HONEST]
    return sorted(
        rules, key=lambda score: (-min(score.attacked, attacked), -_or_least(score.worst), -_or_least(score.clean))
    )


def _or_least(number: float) -> float:
    return -math.inf if math.isnan(number) else number


def _score(rule: str, runs: Sequence[ArenaRun], reference: Mapping[Place, Sequence[float] | None]) -> Score:
    infeasible = any(run.state == "infeasible" for run in runs)
    measured = [run for run in runs if run.state != "infeasible"]
    cells: dict[str, dict[Place, ArenaRun]] = defaultdict(dict)
    for run in measured:
        cells[run.attack][run.partition, run.seed] = run
    clean = {place: 100 * run.accuracy for place, run in cells.pop(NONE, {}).items()}
    attacked = {attack: {place: 100 * run.accuracy for place, run in of.items()} for attack, of in cells.items()}
    reached = Counter(place for of in attacked.values() for place in of)
    places = sorted(place for place, count in reached.items() if count == max(reached.values()))
    least = {place: min((of[place], attack) for attack, of in attacked.items() if place in of) for place in places}
    by_seed = _by_seed({place: number for place, (number, _) in least.items()})
    shown = {place: number for place, number in clean.items() if place in least} or clean
    chosen = Counter(attack for _, attack in least.values()).most_common(1)
    drops = {
        place: max(_drop(reference[place], of[place].recall) for of in cells.values() if place in of)
        for place in places
        if reference.get(place)
    }
    successes = [run.success for run in cells.get(BACKDOOR, {}).values() if not math.isnan(run.success)]
    by_partition = {name: [number for (partition, _), number in shown.items() if partition == name]
                    for name in ("iid", "pathological")}  # fmt: skip
    harmed = attacked.get(WORST, {})
    guessing = 100 / max((len(run.recall) for run in measured if run.recall), default=1)
    open_to_more = {place: number for place, number in harmed.items() if number > guessing}
    single = {attack: _positive(open_to_more, of) for attack, of in attacked.items() if attack != WORST}
    helps = {attack: _positive(of, clean) for attack, of in attacked.items() if rule != HONEST}
    return Score(
        rule=rule,
        clean=_mean(shown.values()),
        worst=_mean(by_seed.values()),
        spread=_percent(interval(list(by_seed.values()))),
        attack=chosen[0][0] if chosen else "",
        share=chosen[0][1] / len(least) if chosen else math.nan,
        recall_drop=_mean(drops.values()),
        backdoor=100 * _mean(successes),
        skew=_mean(by_partition["iid"]) - _mean(by_partition["pathological"]),
        helping={attack: difference for attack, difference in helps.items() if difference is not None},
        stronger={attack: difference for attack, difference in single.items() if difference is not None},
        diverged=sum(run.state == "diverged" for run in measured),
        infeasible=infeasible,
        cells=len(measured),
        attacked=sum(map(len, cells.values())),
        by_seed=by_seed,
    )


def _percent(bounds: Interval | None) -> Interval | None:
    """The part of an interval from 0 to 100: few seeds make Student's wider than accuracies are."""
    return bounds and replace(bounds, low=max(bounds.low, 0.0), high=min(bounds.high, 100.0))


def _by_seed(numbers: Mapping[Place, float]) -> dict[str, float]:
    """The mean over partitions, for each seed that has as many of them as the seed that has most."""
    of_seed: dict[str, list[float]] = defaultdict(list)
    for (_, seed), number in numbers.items():
        of_seed[seed].append(number)
    most = max(map(len, of_seed.values()), default=0)
    return {seed: fmean(of) for seed, of in of_seed.items() if len(of) == most}


def _drop(reference: Sequence[float] | None, recall: Sequence[float] | None) -> float:
    """The max recall drop in points; for a diverged model, the whole recall of the reference."""
    from robustfl_bench.numerics.metrics import max_recall_drop

    assert reference is not None
    return 100 * max_recall_drop(reference, recall if recall is not None else [0.0] * len(reference))


def _positive(first: Mapping[Place, float], second: Mapping[Place, float]) -> Interval | None:
    """The interval of ``first - second`` if it is above 0."""
    names = {place: f"{place[0]} {place[1]}" for place in {*first, *second}}
    difference = paired({names[place]: number for place, number in first.items()},
                   {names[place]: number for place, number in second.items()})  # fmt: skip
    return difference if difference is not None and difference.low > 0 else None


def _mean(numbers: Iterable[float]) -> float:
    values = list(numbers)
    return fmean(values) if values else math.nan


def rank(runs: Sequence[ArenaRun]) -> Ranks | None:
    """Mean ranks of the rules over partitions and attacks, by the mean over seeds; of the rules and conditions of
    ``_shared``. None for fewer than two of them."""
    numbers: dict[str, dict[tuple[str, str, str], float]] = defaultdict(dict)
    for run in runs:
        if run.rule != HONEST and run.state != "infeasible":
            numbers[run.rule][run.partition, run.attack, run.seed] = run.accuracy
    rules, conditions = _shared(numbers)
    seeds: dict[Place, list[tuple[str, str, str]]] = defaultdict(list)
    for condition in conditions:
        seeds[condition[:2]].append(condition)
    if len(rules) < 2 or len(seeds) < 2:
        return None
    means = {
        rule: [round(fmean(numbers[rule][condition] for condition in of), DIGITS) for of in seeds.values()]
        for rule in rules
    }
    return ranks(means, better=1)


def _shared(numbers: Mapping[str, Mapping[Condition, float]]) -> tuple[list[str], list[Condition]]:
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
        if run.attack not in (NONE, HONEST) and run.state != "infeasible":
            least, case = adaptive if run.attack == WORST else single, (run.rule, run.partition, run.seed)
            least[case] = min(least.get(case, math.inf), 100 * run.accuracy)
    behind = [adaptive[case] - single[case] for case in adaptive if case in single]
    return (sum(by <= 0 for by in behind), sum(by <= NEAR for by in behind), len(behind)) if behind else None


def stability(score_of: Mapping[str, Score]) -> tuple[float, int, int] | None:
    """Agreement of the rules' order by ``worst`` between each seed and the others: the mean of Spearman's rank
    correlations, the number of rules and that of seeds, both of ``_shared``. None with fewer than two seeds, or three
    rules."""
    by_seed = {rule: score.by_seed for rule, score in score_of.items() if rule != HONEST}
    rules, seeds = _shared(by_seed)
    if len(seeds) < 2 or len(rules) < 3:
        return None
    correlations = []
    for seed in seeds:
        others = [fmean(by_seed[rule][other] for other in seeds if other != seed) for rule in rules]
        correlations.append(_correlation([by_seed[rule][seed] for rule in rules], others))
    return fmean(correlations), len(rules), len(seeds)


def likeness(runs: Sequence[ArenaRun], others: Sequence[ArenaRun]) -> tuple[float, int] | None:
    """Spearman's rank correlation of the rules' worst cases in ``others`` with those in ``runs`` of the same
    partitions, attacks and seeds, and the number of rules, both of ``_shared``; None for fewer than three."""
    pairs: dict[str, dict[tuple[str, str, str], float]] = defaultdict(dict)
    own_conditions = {_condition(run) for run in runs}
    for run in others:
        if _condition(run) in own_conditions:
            pairs[run.rule][_condition(run)[1:]] = run.accuracy
    rules, conditions = _shared(pairs)
    if len(rules) < 3:
        return None
    both = [scores([run for run in of if _condition(run)[1:] in conditions]) for of in (runs, others)]
    first, second = ([score_of[rule].worst for rule in rules] for score_of in both)
    return _correlation(first, second), len(rules)


def _condition(run: ArenaRun) -> tuple[str, str, str, str]:
    return run.rule, run.partition, run.attack, run.seed


def _correlation(first: Sequence[float], second: Sequence[float]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)
