"""The facts of results/hospitals/README.md."""

import sys
from functools import cache, partial
from typing import Any

import pandas as pd

from scripts.checks.facts.fact import ROOT, Fact
from scripts.checks.facts.kept import ends

ALONE = ("coomed", "geomed", "trmean")
"""The rules that follow an attacker who claims to be the largest."""
RULES = ("average", "coomed", "geomed", "mkrum", "trmean")
"""Those of the eight sites."""


@cache
def generator() -> Any:
    """The script that makes the tables."""
    sys.path.insert(0, str(ROOT / "scripts" / "generators"))
    try:
        import sites  # type: ignore[import-not-found]
    finally:
        del sys.path[0]
    return sites


def of(name: str, rule: str, weighting: str, attack: str) -> "pd.Series[float]":
    """Accuracies in percent, by seed."""
    row: pd.Series[float] = generator().sites(getattr(generator(), name)).loc[(rule, weighting, attack)]
    return row


def lost(name: str, first: tuple[str, str], second: tuple[str, str]) -> list[float]:
    """How many points a rule, with its weights, loses to another one without attack, with the ends of the interval."""
    between = generator().difference(of(name, *second, "none"), of(name, *first, "none"))
    return [between.mean, between.low, between.high]


def below(weighting: str, *attacks: str) -> list[float]:
    """How many points less each rule of the eight sites has with a weighting than without, in the means."""
    return [float((of("EIGHT", rule, "none", attack) - of("EIGHT", rule, weighting, attack)).mean())
            for attack in attacks for rule in RULES]  # fmt: skip


def misled(rule: str) -> list[float]:
    """The mean accuracy of a rule that counts by samples, where the attacker claims to have most."""
    return [float(of("EIGHT", rule, "samples", generator().CLAIMED).mean())]


def kept(largest: bool, weighting: str, *rules: str) -> list[float]:
    """The least and the most that rules, by default all, keep under their worst attack among six sites: that of a
    smaller site, or of the largest."""
    frame = generator().sites(generator().SIX)
    seeds = [seed for seed in frame.columns if (generator().rank(seed) == 1) == largest]
    names = rules or {rule for rule, other, _ in frame.index if other == weighting}
    return ends([generator().worst(rule, weighting, seeds)[0] for rule in names])


def best(largest: bool, rule: tuple[str, str]) -> float:
    """What a rule, with its weights, keeps; it must be the most of all rules but the medians, which are one site's."""
    frame = generator().sites(generator().SIX)
    others = {row[:2] for row in frame.index if row[1] == "none" or row[0] not in ALONE}
    (most,) = kept(largest, rule[1], rule[0])[:1]
    assert most == max(kept(largest, weighting, name)[0] for name, weighting in others), rule
    return most


def clean(rule: str, weighting: str) -> float:
    """The mean accuracy of a rule among six sites without attack."""
    return float(of("SIX", rule, weighting, "none").mean())


def table(name: str) -> list[str]:
    """One of the tables, as a page has it in one line."""
    return [" ".join(getattr(generator(), name)().split())]


PAGE = "results/hospitals/README.md"

FACTS = (
    Fact(
        "weights cost each of five rules {:.1f} to {:.1f} points of accuracy. Under label flips it is {:.1f} to "
        "{:.1f}.",
        lambda: [*ends(below("samples", "none")), *ends(below("samples", "label_flip"))],
    ),
    *(
        Fact("the trimmed mean, the median and the geometric median fall to {:.1f}%", partial(misled, rule))
        for rule in ALONE
    ),
    Fact(
        "the same lie leaves {:.1f}% to {:.1f}%",
        lambda: ends([float(of("EIGHT", rule, "capped", generator().CLAIMED).mean()) for rule in RULES]),
    ),
    Fact(
        "no more than {:.1f} points below no weights in the means",
        lambda: [max(below("capped", "none", "label_flip"))],
    ),
    Fact("by attack and `weighting`: {} ## How", partial(table, "eight")),
    Fact("by a smaller site or by the largest: {} The setting", partial(table, "six")),
    Fact("Alone it has {:.1f}% whichever smaller site lies.", lambda: kept(False, "samples", "coomed")[:1]),
    Fact(
        "The best rule, `norm_bound` with weights by samples, keeps {:.1f}%.",
        lambda: [best(False, ("norm_bound", "samples"))],
    ),
    Fact(
        "the best rule is SignGuard without weights with {:.1f}%",
        lambda: [best(True, ("signguard", "none"))],
    ),
    Fact(
        "the average by samples has {:.1f}%, {:.1f} points more than the largest alone [{:.1f}, {:.1f}]",
        lambda: [clean("average", "samples"), *lost("SIX", ("coomed", "samples"), ("average", "samples"))],
    ),
    Fact(
        "weights leave rules at {:.1f} to {:.1f}%, no weights at {:.1f} to {:.1f}%",
        lambda: [*kept(True, "samples"), *kept(True, "none")],
    ),
    Fact(
        "`norm_bound` then keeps {:.1f}% and {:.1f}%",
        lambda: [kept(largest, "capped", "norm_bound")[0] for largest in (False, True)],
    ),
    Fact(
        "the median loses {:.1f} points [{:.1f}, {:.1f}] to the average and the trimmed mean {:.1f} [{:.1f}, {:.1f}]",
        lambda: [
            *lost("SIX", ("coomed", "none"), ("average", "none")),
            *lost("SIX", ("trmean", "none"), ("average", "none")),
        ],
    ),
    Fact(
        "the average gains {:.1f} points without attack [{:.1f}, {:.1f}]",
        lambda: lost("SIX", ("average", "none"), ("average", "samples")),
    ),
)
