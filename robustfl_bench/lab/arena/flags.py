"""Reasons to doubt a rule's worst case: attacks that help, rules that depend on scale or order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from robustfl_bench.base.console import counted
from robustfl_bench.lab.arena.needs import RuleNeeds
from robustfl_bench.lab.arena.order import WORST
from robustfl_bench.lab.arena.track import HONEST, NONE, ArenaRun
from robustfl_bench.read.runs.statistics import Interval, chance_if_not_above, interval, rejected
from robustfl_bench.read.tables.sheets import Printed, Sheet


@dataclass(frozen=True)
class Remarks:
    """Attacks that surprise, for one rule and number of attackers.

    ``helping`` are attacks under which the accuracy is above that without attack, and ``stronger`` single attacks under
    which it is below that under ``worst``, where that is above guessing. Both have the interval of the difference in
    points, paired over partitions and seeds; of those that are named, for all rules together, at most 5% are expected
    to be chance (``statistics.rejected``). ``diverged`` counts runs.
    """

    helping: Mapping[str, Interval] = field(default_factory=dict)
    stronger: Mapping[str, Interval] = field(default_factory=dict)
    diverged: int = 0


_Differences = Mapping[str, Mapping[str, Sequence[float]]]
"""By rule and attack, in points: one for each partition and seed."""


def remarks(runs: Sequence[ArenaRun]) -> dict[str, Remarks]:
    """The remarks on each rule, by its name; ``runs`` are those with one number of attackers."""
    by_rule: dict[str, list[ArenaRun]] = defaultdict(list)
    for run in runs:
        if run.state != "infeasible" and run.rule != HONEST:
            by_rule[run.rule].append(run)
    found = {rule: _differences(of) for rule, of in by_rule.items()}
    helping, stronger = (_surely({rule: of[kind] for rule, of in found.items()}) for kind in (0, 1))
    diverged = Counter(run.rule for run in runs if run.state == "diverged")
    return {rule: Remarks(helping[rule], stronger[rule], diverged[rule]) for rule in by_rule}


def _differences(runs: Sequence[ArenaRun]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """By how much each attack raises a rule's accuracy, and by how much each does more harm than ``worst``."""
    attacked: dict[str, dict[str, float]] = defaultdict(dict)
    for run in runs:
        attacked[run.attack][f"{run.partition} {run.seed}"] = 100 * run.accuracy
    clean = attacked.pop(NONE, {})
    guessing = 100 / max((len(run.recall) for run in runs if run.recall), default=1)
    open_to_more = {place: number for place, number in attacked.get(WORST, {}).items() if number > guessing}
    helps = {attack: _less(of, clean) for attack, of in attacked.items()}
    return helps, {attack: _less(open_to_more, of) for attack, of in attacked.items() if attack != WORST}


def _less(first: Mapping[str, float], second: Mapping[str, float]) -> list[float]:
    return [first[place] - second[place] for place in first if place in second]


def _surely(differences: _Differences) -> dict[str, dict[str, Interval]]:
    """The attacks of each rule whose difference is surely above 0."""
    chances = {(rule, attack): chance_if_not_above(values)
               for rule, of in differences.items() for attack, values in of.items()}  # fmt: skip
    sure = rejected(chances)
    return {rule: {attack: around for attack, values in of.items()
                   if (rule, attack) in sure and (around := interval(values))}
            for rule, of in differences.items()}  # fmt: skip


def sheet(settled: Mapping[int, Sequence[ArenaRun]], needs: RuleNeeds) -> Sheet:
    """The flags of every rule; ``settled`` are the runs by number of attackers."""
    by_number = {number: remarks(runs) for number, runs in settled.items()}
    rows = []
    for rule in sorted({rule for of in by_number.values() for rule in of}):
        known = needs.check(rule)
        flags = [known] if isinstance(known, str) else known.flags
        for number, of in by_number.items():
            flags += _words(of.get(rule, Remarks()), number)
        rows.append([Printed(rule), Printed("; ".join(flags))])
    return Sheet(
        above=[
            "Flags: reasons to doubt a rule's worst case",
            "helped by: accuracy above that without attack, worst beaten by: a single attack that does more harm than "
            "attack=worst; in points, where a paired test over partitions and seeds, corrected for the number of rules "
            "and attacks (Benjamini and Hochberg, 5%), finds a difference",
        ],
        heading=["rule", "flags"],
        rows=rows,
        labels=2,
        footnotes=["depends on ... (x%): the aggregate of one round then changes by x% of its length"],
    )


def _words(of: Remarks, number: int) -> list[str]:
    words = []
    for begin, sign, differences in (("helped by", 1, of.helping), (f"{WORST} is beaten by", -1, of.stronger)):
        if differences:
            strongest_first = sorted(differences.items(), key=lambda item: -item[1].mean)
            names = ", ".join(f"{name} ({sign * difference.mean:+.1f})" for name, difference in strongest_first)
            words.append(f"{begin} {names}, {number} attackers")
    return [*words, *([f"diverged in {counted(of.diverged, 'run')}, {number} attackers"] if of.diverged else [])]
