"""The facts of results/blindspot/README.md on attack=blindspot."""

from functools import cache, partial
from statistics import fmean

from robustfl_bench.lab.arena.additions import Addition
from robustfl_bench.lab.arena.words import HALF
from robustfl_bench.runner.config.names import readable
from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import arena_of, runs

_SEED = 64
"""It divided the rules in two halves before the attack was written."""


@cache
def halves() -> dict[str, set[str]]:
    """The rules on which the attack was developed, and the others: those that ``planned`` had met."""
    import numpy as np

    rules = sorted({run.rule for run in arena_of("silos").searched["planned"]})
    order = np.random.default_rng(_SEED).permutation(len(rules))
    developed = {rules[place] for place in order[: len(rules) // 2]}
    return {"developed": developed, "others": set(rules) - developed}


@cache
def cases(half: str) -> list[tuple[Addition, float]]:
    """The cases of arena silos (rule and panel) under the attack, each with the least mean accuracy [%] under any other
    attack; of one half of the rules, of the rules of neither (``later``), or of ``all``."""
    found = arena_of("silos").additions
    planned = {(of.panel, of.rule): of.own for of in found if of.by == "planned"}
    own = [of for of in found if of.by == "blindspot"]
    if half == "later":
        own = [of for of in own if of.rule not in halves()["developed"] | halves()["others"]]
    elif half != "all":
        own = [of for of in own if of.rule in halves()[half]]
    return [(of, min(of.least, planned.get((of.panel, of.rule), of.least))) for of in own]


def harm(half: str) -> list[float]:
    """In how many cases of how many it does as much harm as everything else, within a point, in percent, and the means
    of the accuracies that are left [%]: by it, and by the others."""
    found = cases(half)
    as_harmful = sum(of.own <= least + 1 for of, least in found)
    return [as_harmful, len(found), 100 * as_harmful / len(found), fmean(of.own for of, _ in found),
            fmean(least for _, least in found)]  # fmt: skip


def fallen() -> list[int]:
    """How many of how many scores of HALF and more it brings below HALF, and how many of these by one seed."""
    held = [of.score for of, least in cases("all") if of.panel.scaled(least) >= HALF]
    below = [score for score in held if score.value < HALF]
    return [len(below), len(held), sum(score.n == 1 for score in below)]


def left(rule: str, partition: str, number: int) -> list[float]:
    """The mean accuracy [%] that everything else leaves of a rule, that the attack leaves, and the number of seeds."""
    (case,) = (each for each in cases("all") if each[0].rule == rule
               and (each[0].panel.partition, each[0].panel.number) == (partition, number))  # fmt: skip
    return [case[1], case[0].own, case[0].score.n]


def by_hand() -> list[float]:
    """In how many cases the attacks written by hand, each at its most harmful option, leave less than ``blindspot``, of
    how many, and the mean accuracies [%] that they and it leave."""
    table = runs("blindspot/by_hand.csv")
    keys = ["aggregator", "partition", "option"]
    means = 100 * table.groupby(keys, dropna=False)["last_accuracy"].mean()
    least = means.groupby(level=keys[:2]).min()
    searched = {(of.rule, of.panel.partition): of.own for of, _ in cases("all") if of.panel.number == 5}
    pairs = [(hand, searched[case]) for case, hand in least.items()]
    return [sum(hand < own for hand, own in pairs), len(pairs), fmean(hand for hand, _ in pairs),
            fmean(own for _, own in pairs)]  # fmt: skip


def of_their_own() -> list[object]:
    """With ``knowledge=own``: the mean accuracies [%] that the attack leaves, and the most harmful attack of the list;
    in how many cases of how many it does as much harm, within a point; the largest miss: its rule and partition, what
    both leave, and the attack of the list."""
    table = runs("blindspot/own.csv.gz")
    cases = table.assign(left=100 * table["last_accuracy"]).pivot(
        index=["aggregator", "partition"], columns="attack", values="left"
    )
    own, others = cases.pop("blindspot").clip(lower=10), cases.clip(lower=10)
    least = others.min(axis=1)
    worst = [*own.index][int((own - least).argmax())]
    rule, partition = worst
    return [own.mean(), least.mean(), int((own <= least + 1).sum()), len(cases), readable(rule), readable(partition),
            own[worst], others.loc[worst].idxmin(), least[worst]]  # fmt: skip


PAGE = "results/blindspot/README.md"

FACTS = (
    Fact("brings {} of {} scores of 50 and more below 50, {} with one seed.**", fallen, slow=True),
    Fact(
        "they are more harmful than `blindspot` in {} of {} cases. They leave {:.0f}% on average, it leaves {:.0f}%.",
        by_hand,
        slow=True,
    ),
    Fact(
        "leave {:.0f}% where the most harmful of the list's attacks leaves {:.0f}%, and are as harmful within a point "
        "in {} of {} cases",
        lambda: of_their_own()[:4],
    ),
    Fact(
        "The largest miss is {} in {}: {:.0f}%, where `{}` leaves {:.0f}%.",
        lambda: of_their_own()[4:],
    ),
    *(
        Fact(f"| {words} | {{}} of {{}} ({{:.0f}}%) | {{:.0f}} | {{:.0f}} |", partial(harm, half), slow=True)
        for words, half in (
            ("half on which it was developed", "developed"),
            ("other half", "others"),
            ("rules that `planned` never met", "later"),
        )
    ),
    *(
        Fact(f"| {rule} | {partition} | {number} | {{:.0f}} | {{:.0f}} | {{}} |",
             partial(left, rule, partition, number), slow=True)
        for rule, partition, number in (
            ("fltrust", "mild_dirichlet", 5),
            ("fltrust", "pathological", 10),
            ("signguard", "pathological", 5),
            ("lasa", "mild_dirichlet", 5),
            ("caf", "fang", 5),
            ("clipped_clustering", "step", 10),
            ("fedseca", "iid", 10),
            ("signsgd", "fang", 5),
        )
    ),
)  # fmt: skip
