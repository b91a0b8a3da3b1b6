"""What a maintainer needs to decide on a rule: its promises, its cost, and where it is better or worse than others.

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
from statistics import fmean

from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.read.runs.statistics import LEVEL, Interval, interval

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


FULL = Trial(
    ("iid", "mild_dirichlet"), ("none", "ipm", "lie", "minmax", "sign_flip", "label_flip", "mimic"), 10
)  # fmt: skip
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
    pairs = [
        (
            partition,
            attack,
            rival,
            [100 * (max(own[seed], CHANCE) - max(other[seed], CHANCE)) for seed in own if seed in other],
        )
        for (name, partition, attack), own in accuracies.items()
        if name == rule
        for rival in rivals
        if (other := accuracies.get((rival, partition, attack)))
    ]
    pairs = [pair for pair in pairs if len(pair[3]) > 1]
    found = [(*pair[:3], interval(pair[3], level(len(pairs)))) for pair in pairs]
    return [Paired(*place, of) for *place, of in found if of is not None]  # type: ignore[call-arg, arg-type]


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
    import numpy as np
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
