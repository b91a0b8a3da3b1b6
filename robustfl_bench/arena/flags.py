"""Reasons to doubt a rule's worst case: attacks that help, rules that depend on scale or order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from robustfl_bench.arena.needs import RuleNeeds
from robustfl_bench.arena.order import WORST
from robustfl_bench.arena.track import HONEST, NONE, ArenaRun
from robustfl_bench.runs.statistics import Interval, paired
from robustfl_bench.tables.sheets import Printed, Sheet


@dataclass(frozen=True)
class Remarks:
    """Attacks that surprise, for one rule and number of attackers.

    ``helping`` are attacks under which the accuracy is above that without attack, and ``stronger`` single attacks under
    which it is below that under ``worst``, where that is above guessing. Both have the paired interval over partitions
    and seeds of the difference in points, which excludes 0. ``diverged`` counts runs.
    """

    helping: Mapping[str, Interval] = field(default_factory=dict)
    stronger: Mapping[str, Interval] = field(default_factory=dict)
    diverged: int = 0


def remarks(runs: Sequence[ArenaRun]) -> dict[str, Remarks]:
    """The remarks on each rule, by its name; ``runs`` are those with one number of attackers."""
    by_rule: dict[str, list[ArenaRun]] = defaultdict(list)
    for run in runs:
        if run.state != "infeasible" and run.rule != HONEST:
            by_rule[run.rule].append(run)
    return {rule: _remarks(of) for rule, of in by_rule.items()}


def _remarks(runs: Sequence[ArenaRun]) -> Remarks:
    attacked: dict[str, dict[str, float]] = defaultdict(dict)
    for run in runs:
        attacked[run.attack][f"{run.partition} {run.seed}"] = 100 * run.accuracy
    clean = attacked.pop(NONE, {})
    guessing = 100 / max((len(run.recall) for run in runs if run.recall), default=1)
    open_to_more = {place: number for place, number in attacked.get(WORST, {}).items() if number > guessing}
    helps = {attack: _positive(of, clean) for attack, of in attacked.items()}
    stronger = {attack: _positive(open_to_more, of) for attack, of in attacked.items() if attack != WORST}
    return Remarks(
        helping={attack: difference for attack, difference in helps.items() if difference is not None},
        stronger={attack: difference for attack, difference in stronger.items() if difference is not None},
        diverged=sum(run.state == "diverged" for run in runs),
    )


def _positive(first: Mapping[str, float], second: Mapping[str, float]) -> Interval | None:
    """The interval of ``first - second`` if it is above 0."""
    difference = paired(first, second)
    return difference if difference is not None and difference.low > 0 else None


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
            "attack=worst; in points, where the paired 95% interval over partitions and seeds excludes 0",
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
    return [*words, *([f"diverged in {of.diverged} runs, {number} attackers"] if of.diverged else [])]
