"""The facts of results/hospitals/README.md."""

from functools import partial

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import ends, interval
from scripts.generators import sites

ALONE = ("coomed", "geomed", "trmean")
"""The rules that follow an attacker who claims to be the largest."""
RULES = ("average", "coomed", "geomed", "mkrum", "trmean")
"""Those of the eight sites."""


def of(name: str, rule: str, weighting: str, attack: str) -> "pd.Series[float]":
    """Accuracies in percent, by seed."""
    row: pd.Series[float] = sites.sites(name).loc[(rule, weighting, attack)]
    return row.dropna()


def lost(name: str, first: tuple[str, str], second: tuple[str, str]) -> list[float]:
    """How many points a rule, with its weights, loses to another one without attack, with the ends of the interval."""
    return interval(of(name, *second, "none"), of(name, *first, "none"))


def below(weighting: str, *attacks: str) -> list[float]:
    """How many points less each rule of the eight sites has with a weighting than without, in the means."""
    return [float((of(sites.EIGHT, rule, "none", attack) - of(sites.EIGHT, rule, weighting, attack)).mean())
            for attack in attacks for rule in RULES]  # fmt: skip


def misled(rule: str) -> list[float]:
    """The mean accuracy of a rule that counts by samples, where the attacker claims to have most."""
    return [float(of(sites.EIGHT, rule, "samples", sites.CLAIMED).mean())]


def left(largest: bool, rule: str, weighting: str) -> float:
    """What a rule keeps under its worst attack among six sites: that of a smaller site, or of the largest."""
    seeds = [seed for seed in sites.sites(sites.SIX).columns if (sites.rank(seed) == 1) == largest]
    return sites.worst(rule, weighting, seeds)[0]


def range_of(weighting: str) -> list[float]:
    """The least and the most that rules keep with a weighting where the largest site attacks."""
    rules = {rule for rule, other, _ in sites.sites(sites.SIX).index if other == weighting}
    return ends([left(True, rule, weighting) for rule in rules])


def best(largest: bool, rule: str, weighting: str) -> list[float]:
    """What a rule keeps; it must be the most of all rules but the weighted medians, which are one site's."""
    rows = {row[:2] for row in sites.sites(sites.SIX).index if row[1] == "none" or row[0] not in ALONE}
    assert (rule, weighting) == max(rows, key=lambda row: left(largest, *row))
    return [left(largest, rule, weighting)]


def clean(rule: str, weighting: str) -> float:
    """The mean accuracy of a rule among six sites without attack."""
    return float(of(sites.SIX, rule, weighting, "none").mean())


def table(name: str) -> list[str]:
    """One of the tables, as a page has it in one line."""
    return [" ".join(getattr(sites, name)().split())]


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
        lambda: ends([float(of(sites.EIGHT, rule, "capped", sites.CLAIMED).mean()) for rule in RULES]),
    ),
    Fact(
        "no more than {:.1f} points below no weights in the means", lambda: [max(below("capped", "none", "label_flip"))]
    ),
    Fact("by attack and `weighting`: {} ## How", partial(table, "eight")),
    Fact("by a smaller site or by the largest: {} The setting", partial(table, "six")),
    Fact("Alone it has {:.1f}% whichever smaller site lies.", lambda: [left(False, "coomed", "samples")]),
    Fact(
        "The best rule, `norm_bound` with weights by samples, keeps {:.1f}%.",
        partial(best, False, "norm_bound", "samples"),
    ),
    Fact("the best rule is SignGuard without weights with {:.1f}%", partial(best, True, "signguard", "none")),
    Fact(
        "the average by samples has {:.1f}%, {:.1f} points more than the largest alone [{:.1f}, {:.1f}]",
        lambda: [clean("average", "samples"), *lost(sites.SIX, ("coomed", "samples"), ("average", "samples"))],
    ),
    Fact(
        "weights leave rules at {:.1f} to {:.1f}%, no weights at {:.1f} to {:.1f}%",
        lambda: [*range_of("samples"), *range_of("none")],
    ),
    Fact(
        "`norm_bound` then keeps {:.1f}% and {:.1f}%",
        lambda: [left(largest, "norm_bound", "capped") for largest in (False, True)],
    ),
    Fact(
        "the median loses {:.1f} points [{:.1f}, {:.1f}] to the average and the trimmed mean {:.1f} [{:.1f}, {:.1f}]",
        lambda: [
            *lost(sites.SIX, ("coomed", "none"), ("average", "none")),
            *lost(sites.SIX, ("trmean", "none"), ("average", "none")),
        ],
    ),
    Fact(
        "the average gains {:.1f} points without attack [{:.1f}, {:.1f}]",
        lambda: lost(sites.SIX, ("average", "none"), ("average", "samples")),
    ),
)
