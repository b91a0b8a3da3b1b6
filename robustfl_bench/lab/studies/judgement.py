"""The page on a rule that ``robustfl-bench judge`` writes: the verdict first, then what it rests on."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from robustfl_bench.lab.studies import judge
from robustfl_bench.lab.studies.judge import Accuracies, Paired, Trial
from robustfl_bench.read.runs.statistics import LEVEL
from robustfl_bench.read.tables.sheets import Printed, Sheet

_BASICS = "finite numbers of the right shape, the same for the same updates, which it does not change"
NAMES = {"average": "FedAvg", "coomed": "the median", "mkrum": "Multi-Krum"}
UNSAID = (
    "Other data, models, numbers of clients and of attackers, and other attacks: digits is a small data set, and its "
    "accuracy tells strong from weak rules, not good from best ones.",
    "An attack that knows this rule. The attacks here are fixed; attack=worst and robustfl-bench resilience search.",
    "Whether the rule is new, or does what its paper says: that needs a reader.",
)


@dataclass(frozen=True)
class Judgement:
    """All that the page on a rule says."""

    rule: str
    rivals: Sequence[str]
    trial: Trial
    promises: Mapping[str, str]
    exempt: Mapping[str, str]
    cost: tuple[float, float]
    clients: int
    num_byzantine: int
    accuracies: Accuracies
    command: str

    @cached_property
    def comparisons(self) -> list[Paired]:
        """The rule against each rival, under each condition."""
        return judge.compared(self.accuracies, self.rule, self.rivals)


def page(verdict: Judgement) -> list[Sheet]:
    """The page as two tables with words above and below: the comparisons, then the promises."""
    level = judge.level(len(verdict.comparisons))
    unresolved = [each for each in verdict.comparisons if each.verdict == "open"]
    halves = [(each.difference.high - each.difference.low) / 2 for each in verdict.comparisons]
    seeds, comparisons = verdict.trial.seeds, len(verdict.comparisons)
    footnotes = [
        f"Test accuracy in percent on digits, mean over {seeds} seeds, {verdict.clients} clients of whom "
        f"{verdict.num_byzantine} attack; differences in points with paired intervals.",
        f"Each interval has confidence {level:.2%}, so that all {comparisons} hold together with {LEVEL:.0%} "
        "(Bonferroni).",
        f"In differences, a model that diverged, and less than {judge.CHANCE:.0%}, count as that: one class of ten.",
        "Each rule has the learning rate that is best for it without attack on held-out data, for each partition.",
    ]
    unsaid = [
        f"Not told apart: {len(unresolved)} of {comparisons} comparisons. Half an interval is {median(halves):.1f} "
        f"points in the middle: smaller differences are not seen with {seeds} seeds.",
        *UNSAID,
    ]
    return [
        Sheet(
            above=[f"Verdict on {verdict.rule}", *_found(verdict)],
            heading=["partition", "attack", verdict.rule, *(f"minus {_name(rival)}" for rival in verdict.rivals)],
            rows=_rows(verdict),
            labels=2,
            footnotes=footnotes,
            bold="the interval does not contain 0",
            report=[*(f"What this cannot say: {line}" for line in unsaid), f"Made by: {verdict.command}"],
        ),
        Sheet(
            above=[f"The promises of {verdict.rule}"],
            heading=["promise", "what it means", "broken by", "the rule says"],
            rows=[
                [Printed(text) for text in (name, _meaning(name), case or "-", verdict.exempt.get(name, "-"))]
                for name, case in verdict.promises.items()
            ],
            labels=4,
        ),
    ]


def _meaning(promise: str) -> str:
    from robustfl_bench.doors.testing import PROMISES

    return _BASICS if promise == judge.BASICS else PROMISES[promise]


def _found(verdict: Judgement) -> list[str]:
    """The verdict in sentences: right or not, what it costs, where it is better and worse."""
    milliseconds, times = verdict.cost
    lines = [
        _contract(verdict),
        f"Cost of a call: {milliseconds:.1f} ms for {verdict.clients} updates of 50,000 numbers, "
        f"{times:.1f} times the mean.",
    ]
    for rival in verdict.rivals:
        against = [each for each in verdict.comparisons if each.rival == rival]
        parts = []
        for kind in ("better", "worse"):
            if places := [each for each in against if each.verdict == kind]:
                where = ", ".join(f"{each.attack} ({each.partition})" for each in places)
                parts.append(f"{kind} in {len(places)} of {len(against)} cases: {where}")
        lines.append(f"Against {_name(rival)}: {'; '.join(parts) or f'not told apart in any of {len(against)} cases'}.")
    clean = [each for each in verdict.comparisons if each.attack == "none" and each.rival == "average"]
    lines += [
        f"Without attack ({each.partition}): {each.difference.mean:+.1f} points against FedAvg "
        f"[{each.difference.low:.1f}, {each.difference.high:.1f}]."
        for each in clean
    ]
    return lines


def _contract(verdict: Judgement) -> str:
    """The promises that the rule breaks, and those that it does not make."""
    broken = [name for name, case in verdict.promises.items() if case and name not in verdict.exempt]
    made = [name for name in verdict.promises if name not in verdict.exempt]
    kept = (
        f"it breaks {', '.join(broken)}, of {len(made)} promises that it makes (below)"
        if broken
        else (f"it keeps all {len(made)} promises that it makes")
    )
    exempt = f"; it does not promise {', '.join(verdict.exempt)}" if verdict.exempt else ""
    return f"Contract: {kept}{exempt}."


def _rows(verdict: Judgement) -> list[list[Printed]]:
    rows = []
    known = {(each.partition, each.attack, each.rival): each for each in verdict.comparisons}
    for partition in verdict.trial.partitions:
        for attack in verdict.trial.attacks:
            own = judge.mean(verdict.accuracies, verdict.rule, partition, attack)
            cells = [Printed(partition), Printed(attack), Printed(f"{own:.1f}")]
            for rival in verdict.rivals:
                each = known.get((partition, attack, rival))
                text = "-" if each is None else _interval(each)
                cells.append(Printed(text, best=each is not None and each.verdict != "open"))
            rows.append(cells)
    return rows


def _interval(each: Paired) -> str:
    low, high = each.difference.low, each.difference.high
    return f"{each.difference.mean:+.1f} [{low:.1f}, {high:.1f}]"


def _name(rule: str) -> str:
    return NAMES.get(rule, rule)


def numbers(verdict: Judgement) -> str:
    """The accuracy of every run, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["aggregator", "partition", "attack", "seed", "test_accuracy"])
    for (rule, partition, attack), by_seed in verdict.accuracies.items():
        writer.writerows([rule, partition, attack, seed, f"{value:.8g}"] for seed, value in by_seed.items())
    return text.getvalue()
