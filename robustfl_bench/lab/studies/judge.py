"""The page on a rule that a maintainer needs: its promises, its cost, and where it is better or worse than others.

The runs are cells of the arena: its setting, which is never changed, and each rule at the learning rate that is best
for it without attack, on data held out for validation.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from robustfl_bench.base.late import np
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.read.runs.statistics import LEVEL, Interval, interval
from robustfl_bench.read.tables.sheets import Printed, Sheet, csv_text

RIVALS = ("average", "coomed")
"""FedAvg and the median: the rules that every rule is compared with."""

BASICS = "finite"
"""The promise that every rule makes: finite numbers of the right shape, the same for the same input, which stays."""

CHANCE = 0.1
"""The accuracy of a model that predicts one of the ten classes. In differences it stands for a model that diverged, and
for lower accuracies: of two models that an attack has ruined, none is the better one."""


@dataclass(frozen=True)
class Trial:
    """The conditions under which rules meet, and the number of seeds."""

    partitions: Sequence[str]
    attacks: Sequence[str]
    seeds: int

    def cells(self, rules: Sequence[str], extra: Sequence[str]) -> list[str]:
        """The words that sweep all runs."""
        attacks, partitions = ",".join(self.attacks), ",".join(self.partitions)
        seeds = ",".join(map(str, range(self.seeds)))
        swept = [f"aggregator={','.join(rules)}", f"partition={partitions}", f"attack={attacks}", f"seed={seeds}"]
        return ["+experiment=arena/digits", "num_byzantine=5", *swept, *extra]

    def rates(self, rules: Sequence[str], extra: Sequence[str]) -> list[str]:
        """The words that sweep the runs which choose the learning rates."""
        swept = [f"aggregator={','.join(rules)}", f"partition={','.join(self.partitions)}"]
        return ["+experiment=arena/digits_rates", *swept, *extra]


FULL = Trial(("iid", "mild_dirichlet"), ("none", "ipm", "lie", "minmax", "sign_flip", "label_flip", "mimic"), 10)
QUICK = Trial(("mild_dirichlet",), ("none", "ipm", "lie"), 3)

Accuracies = Mapping[tuple[str, str, str], Mapping[str, float]]
"""Test accuracy by rule, partition and attack, and by seed."""


@dataclass(frozen=True)
class Paired:
    """The rule against a rival: the mean difference in points of accuracy, with its interval, over the same seeds."""

    partition: str
    attack: str
    rival: str
    difference: Interval

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, or ``open`` if the interval contains 0."""
        return "open" if self.difference.has_zero else "better" if self.difference.mean > 0 else "worse"


def level(comparisons: int) -> float:
    """The confidence of each interval for which all of them hold together with LEVEL (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(comparisons, 1)


def compared(accuracies: Accuracies, rule: str, rivals: Sequence[str]) -> list[Paired]:
    """The rule against each rival under each condition that both have met with two seeds or more."""
    differences = {}
    for (name, partition, attack), own in accuracies.items():
        for rival in rivals if name == rule else ():
            other = accuracies.get((rival, partition, attack), {})
            points = [100 * (max(own[seed], CHANCE) - max(other[seed], CHANCE)) for seed in own if seed in other]
            if len(points) > 1:
                differences[partition, attack, rival] = points
    known = {place: interval(points, level(len(differences))) for place, points in differences.items()}
    return [Paired(*place, of) for place, of in known.items() if of is not None]


def mean(accuracies: Accuracies, rule: str, partition: str, attack: str) -> float:
    """Mean accuracy in percent; nan without a run."""
    values = accuracies.get((rule, partition, attack), {}).values()
    return 100 * fmean(values) if values else math.nan


def _asked_but_for(rule: Aggregator, exempt: Mapping[str, str]) -> Aggregator:
    """A copy of a rule that says nothing of promises but that it does not make those of ``exempt``."""
    alone = copy.copy(rule)
    object.__setattr__(
        alone, "__class__", type(type(rule).__name__, (type(rule),), {"exempt": exempt, "__slots__": ()})
    )
    return alone


def promises(rule: Aggregator, num_byzantine: int, clients: int) -> dict[str, str]:
    """The promises of ``testing.PROMISES`` and BASICS, each with the first case in which the rule breaks it, or an
    empty text."""
    from robustfl_bench.doors.testing import PROMISES, check_aggregator

    found = {}
    for asked in (BASICS, *PROMISES):
        alone = _asked_but_for(rule, {name: "not asked" for name in PROMISES if name != asked})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of somebody else's code, about numbers at the limits of float32
                check_aggregator(alone, num_byzantine, clients)
            found[asked] = ""
        except AssertionError as error:
            _, promise, *case = str(error).split(": ", 2)
            found[BASICS if promise not in PROMISES else promise] = ": ".join(case) or str(error)
    return found


def cost(rule: Aggregator, clients: int, parameters: int = 50_000, repeats: int = 7) -> tuple[float, float]:
    """Milliseconds of a call of the rule on random updates, and as a multiple of the mean's.

    Calls take turns, and the fastest of each counts: other processes only make it slower.
    """
    import torch

    from robustfl_bench.doors.testing import example_server
    from robustfl_bench.numerics.updates import Updates
    from robustfl_bench.parts.aggregators.average import Average

    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(clients, parameters))).float()
    server = example_server(rows[:2], clients=clients)
    seconds: dict[str, list[float]] = {"rule": [], "mean": []}
    for _ in range(repeats):
        for name, each in (("rule", rule), ("mean", Average())):
            updates = Updates(rows.clone())
            began = time.perf_counter()
            each(updates, server)
            seconds[name].append(time.perf_counter() - began)
    own, usual = (min(values) for values in seconds.values())
    return 1000 * own, own / usual


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
        return compared(self.accuracies, self.rule, self.rivals)


def page(verdict: Judgement) -> list[Sheet]:
    """The page as two tables with words above and below: the comparisons, then the promises."""
    confidence = level(len(verdict.comparisons))
    unresolved = [each for each in verdict.comparisons if each.verdict == "open"]
    halves = [(each.difference.high - each.difference.low) / 2 for each in verdict.comparisons]
    seeds, comparisons = verdict.trial.seeds, len(verdict.comparisons)
    footnotes = [
        f"Test accuracy in percent on digits, mean over {seeds} seeds, {verdict.clients} clients of whom "
        f"{verdict.num_byzantine} attack; differences in points with paired intervals.",
        f"Each interval has confidence {confidence:.2%}, so that all {comparisons} hold together with {LEVEL:.0%} "
        "(Bonferroni).",
        f"In differences, a model that diverged, and less than {CHANCE:.0%}, count as that: one class of ten.",
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

    return _BASICS if promise == BASICS else PROMISES[promise]


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
            own = mean(verdict.accuracies, verdict.rule, partition, attack)
            cells = [Printed(partition), Printed(attack), Printed(f"{own:.1f}")]
            for rival in verdict.rivals:
                each = known.get((partition, attack, rival))
                found = each and each.difference
                text = f"{found.mean:+.1f} [{found.low:.1f}, {found.high:.1f}]" if found else "-"
                cells.append(Printed(text, best=each is not None and each.verdict != "open"))
            rows.append(cells)
    return rows


def _name(rule: str) -> str:
    return NAMES.get(rule, rule)


def numbers(verdict: Judgement) -> str:
    """The accuracy of every run, as CSV."""
    lines = [[*cell, seed, f"{value:.8g}"] for cell, by_seed in verdict.accuracies.items()
             for seed, value in by_seed.items()]  # fmt: skip
    return csv_text([["aggregator", "partition", "attack", "seed", "test_accuracy"], *lines])
