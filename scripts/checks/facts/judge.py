"""The facts of results/judge/README.md."""

from functools import cache

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import interval, runs


@cache
def fedscs() -> pd.DataFrame:
    """The mean accuracy of FedSCS and of what it was compared with, in percent, by rule, partition and attack."""
    keys = ["aggregator", "partition", "attack"]
    table = runs("judge/fedscs/accuracy.csv")
    counted = table["test_accuracy"].fillna(0).clip(lower=0.1)
    return 100 * table.assign(counted=counted).groupby(keys)[["test_accuracy", "counted"]].mean()


def over(rule: str, *cells: tuple[str, str]) -> list[float]:
    """By how many points FedSCS is above a rule, less than guessing counted as guessing."""
    counted = fedscs()["counted"]
    return [float(counted[("fed_scs", *cell)] - counted[(rule, *cell)]) for cell in cells]


def five(rule: str) -> "pd.Series[float]":
    """The accuracy of the last model in the reviewer's setting, in percent, by seed."""
    table = runs("judge/five_clients.csv")
    return 100 * table[table["aggregator"] == rule].set_index("seed")["final_accuracy"]


def beside_the_mean() -> list[float]:
    """The means of FedSCS and of FedAvg, their paired difference with its interval, and the number of seeds."""
    first, second = five("fed_scs"), five("average")
    seeds = first.index.intersection(second.index)
    first, second = first[seeds], second[seeds]
    return [first.mean(), second.mean(), *interval(first, second), len(seeds)]


PAGE = "results/judge/README.md"

FACTS = (
    Fact(
        "by {:+.1f} points on `iid` and {:+.1f} on `mild_dirichlet`. It loses to FedAvg on `mild_dirichlet` under "
        "`minmax` ({:.1f}), `lie` ({:.1f}) and `mimic` ({:.1f}).",
        lambda: over(
            "average",
            *((partition, "sign_flip") for partition in ("iid", "mild_dirichlet")),
            *(("mild_dirichlet", attack) for attack in ("minmax", "lie", "mimic")),
        ),
    ),
    Fact(
        "`ipm` ruins it, to {:.1f}% on `iid`: {:.1f} points below the median",
        lambda: [float(fedscs()["test_accuracy"]["fed_scs", "iid", "ipm"]), -over("coomed", ("iid", "ipm"))[0]],
    ),
    Fact(
        "FedSCS has {:.1f}%, FedAvg {:.1f}%: a difference of {:+.1f} points [{:.1f}, {:.1f}] over {} seeds",
        beside_the_mean,
    ),
    Fact("The median has {:.1f}%", lambda: [five("coomed").mean()]),
)
