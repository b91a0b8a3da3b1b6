"""The facts of results/blindspot/README.md on attack=worst."""

from functools import cache

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import CHANCE, NUMBERS, arena_of, runs

WORST = ("none", "worst", "worst_ahead_3")


def beaten() -> list[int]:
    """In how many cases of arena digits a single attack does more harm than worst, of how many, and in how many by more
    than two points; with the fewer attackers."""
    from robustfl_bench.lab.arena.order import strongest

    settled = arena_of("digits").settled
    found = strongest(settled[min(settled)])
    assert found is not None
    least, near, cases = found
    return [cases - least, cases, cases - near]


@cache
def adversaries(data: str, seeds: int) -> pd.DataFrame:
    """The mean accuracy of each rule under each attack and strength that was run with all of the first seeds."""
    table = runs(f"worst/{data}.csv").query("seed < @seeds")
    strength = table["strength"].map(lambda value: "" if pd.isna(value) else f" {value:g}")
    cells = table.groupby(["rule", table["attack"] + strength])["test_accuracy"].agg(["mean", "size"])
    return cells[cells["size"] == seeds]["mean"].unstack()


def stronger(data: str, seeds: int) -> pd.Series:
    """How many single attacks take over a point of accuracy more from each rule than worst."""
    table = adversaries(data, seeds)
    return table.drop(columns=[*WORST]).lt(table["worst"] - 0.01, axis=0).sum(axis=1)


def under(data: str, seeds: int, rule: str, *attacks: str) -> list[float]:
    """The mean accuracy of a rule under attacks, in percent."""
    return [100 * float(adversaries(data, seeds).loc[rule, attack]) for attack in attacks]


def overhead() -> list[float]:
    """How many rounds without attack a round of worst takes, over data and rules: the least and the most."""
    times = list[float]()
    for data in ("digits", "mnist"):
        means = runs(f"worst/{data}.csv").groupby(["attack", "rule"])[["attack_seconds", "round_seconds"]].mean()
        times += (means.loc["worst", "attack_seconds"] / means.loc["none", "round_seconds"]).tolist()
    return [min(times), max(times)]


@cache
def objectives() -> pd.DataFrame:
    """The accuracy [%] under worst and under worst_classes, by partition and rule."""
    table = runs("worst/classes.csv")
    table = table.assign(accuracy=100 * table["final_accuracy"].fillna(CHANCE))
    return table.pivot(index=["partition", "aggregator"], columns="attack", values="accuracy")


def by_classes() -> "pd.Series[float]":
    """How much more harm worst_classes does than worst, in points, with accuracies below chance as chance."""
    floored = objectives().clip(100 * CHANCE)
    return floored["worst"] - floored["worst_classes"]


PAGE = "results/blindspot/README.md"

FACTS = (
    Fact(
        "a single attack does more harm in {} of {} cases (rule, partition and seed), by more than 2 points in {}",
        beaten,
        slow=True,
    ),
    Fact(
        "Holds, within one point of accuracy, for {} of {} rules on digits (means over three seeds) and for {} of {} "
        "on MNIST (one seed).",
        lambda: [
            int(number)
            for counts in (stronger("digits", 3), stronger("mnist", 1))
            for number in ((counts == 0).sum(), len(counts))
        ],
    ),
    Fact(
        "against median, minmax and minsum with `unit` reach {:.1f}%, `worst` {:.1f}%. Against bulyan, `sign` at "
        "strength 0.5 reaches {:.1f}% and `drift` at 0.5 reaches {:.1f}%; `worst` has {:.1f}%.",
        lambda: [
            *under("digits", 3, "median", "minsum_unit 1", "worst"),
            *under("digits", 3, "bulyan", "sign 0.5", "drift 0.5", "worst"),
        ],
    ),
    Fact(
        "against median, minmax and minsum with `unit` reach {:.1f}%",
        lambda: under("digits", 3, "median", "minmax_unit 1"),
    ),
    Fact(
        "against median, `sign` at strength 4 reaches {:.1f}%, `worst` {:.1f}%; {} more attacks beat it by "
        "over a point",
        lambda: [*under("mnist", 1, "median", "sign 4", "worst"), NUMBERS[stronger("mnist", 1)["median"] - 1]],
    ),
    Fact(
        "Seeds 1 and 2 on digits were run with the {} attacks of the list that did the most harm with seed 0.",
        lambda: [NUMBERS[number] for number in adversaries("digits", 3).drop(columns=[*WORST]).count(axis=1).unique()],
    ),
    Fact("A round of the attack costs {:.0f} to {:.0f} rounds without.", overhead),
    Fact(
        "it does more harm by over a point in {} of {} cases and less in {}; over all cases it does {:.1f} points less "
        "on average.",
        lambda: [
            int((by_classes() > 1).sum()),
            len(by_classes()),
            int((by_classes() < -1).sum()),
            -float(by_classes().mean()),
        ],
    ),
)
