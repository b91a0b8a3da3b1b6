"""The facts of results/silos_weights/README.md."""

import sys
from functools import cache, partial
from typing import Any

import pandas as pd

from scripts.checks.facts.fact import ROOT, Fact
from scripts.checks.facts.kept import ends, interval

ALONE = ("coomed", "geomed", "trmean")
"""The rules that follow an attacker who claims to be the largest."""


@cache
def _generator() -> Any:
    """The script that makes the tables."""
    sys.path.insert(0, str(ROOT / "scripts" / "generators"))
    try:
        import silos_weights  # type: ignore[import-not-found]
    finally:
        del sys.path[0]
    return silos_weights


@cache
def accuracies() -> pd.DataFrame:
    """The accuracies in percent: a row for each rule, weighting and attack, a column for each seed."""
    return _generator().read(_generator().RUNS)


def means(weighting: str, attack: str) -> list[float]:
    """The mean accuracies of all rules, in the order of their names."""
    rules = sorted(set(accuracies().index.get_level_values("rule")))
    return [float(accuracies().loc[(rule, weighting, attack)].mean()) for rule in rules]


def below(weighting: str, *attacks: str) -> list[float]:
    """How many points less each rule has with a weighting than without, in the means."""
    return [before - after for attack in attacks
            for before, after in zip(means("none", attack), means(weighting, attack), strict=True)]  # fmt: skip


def misled(rule: str) -> list[float]:
    """The mean accuracy of a rule that counts by samples, where the attacker claims to have most."""
    return [float(accuracies().loc[(rule, "samples", "and a false size")].mean())]


def lost(rule: str) -> list[float]:
    """How many points a rule loses to the average without attack and weights, with the ends of the paired interval."""
    return interval(*(accuracies().loc[(name, "none", "no attack")] for name in ("average", rule)))


def table(number: int) -> list[str]:
    """One of the two tables, as a page has it in one line."""
    return [" ".join(_generator().tables(accuracies())[number].split())]


PAGE = "results/silos_weights/README.md"

FACTS = (
    Fact(
        "weights cost each of five rules {:.1f} to {:.1f} points of accuracy. Under label flips it is {:.1f} to "
        "{:.1f}.",
        lambda: [*ends(below("samples", "no attack")), *ends(below("samples", "label flips"))],
    ),
    *(
        Fact("the trimmed mean, the median and the geometric median fall to {:.1f}%", partial(misled, rule))
        for rule in ALONE
    ),
    Fact("the same lie leaves {:.1f}% to {:.1f}%", lambda: ends(means("capped", "and a false size"))),
    Fact(
        "the trimmed mean loses {:.1f} points [{:.1f}, {:.1f}] to the average and the median {:.1f} [{:.1f}, {:.1f}]",
        lambda: [*lost("trmean"), *lost("coomed")],
    ),
    Fact(
        "no more than {:.1f} points below no weights in the means",
        lambda: [max(below("capped", "no attack", "label flips"))],
    ),
    Fact("by attack and `weighting`: {} Differences", partial(table, 0)),
    Fact("over the five seeds: {} ## What", partial(table, 1)),
)
