"""The facts of results/blindspot/README.md on kappa without training."""

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import NUMBERS, runs


def unmixed() -> pd.DataFrame:
    """The kappa and lambda of the rules without pre-aggregation."""
    return runs("resilience/normal.csv").query("pre_aggregation == 'none'")


def exact(bound: str, found: str) -> list[str]:
    """The rules without pre-aggregation whose search reaches the proven bound for every f."""
    table = unmixed()
    reached = (table[bound] - table[found]).abs() <= 1e-3 * table[bound]
    return sorted(str(rule) for rule, all_of_them in reached.groupby(table["aggregator"]).all().items() if all_of_them)


def second_least() -> list[str]:
    """The rules without pre-aggregation of which one has the second least kappa on any updates, for some f."""
    ranks = unmixed().groupby("f")["kappa_any"].rank(method="min")
    return [", ".join(sorted(set(unmixed()["aggregator"][ranks == 2]))).upper()]


PAGE = "results/blindspot/README.md"

FACTS = (
    Fact(
        "With {} clients and f of {}, {} and {}, the search reaches the bound, so that kappa is known exactly, for {} "
        "rules: the trimmed mean",
        lambda: [
            *runs("resilience/normal.csv")["n"].unique(),
            *runs("resilience/normal.csv")["f"].unique(),
            NUMBERS[len(exact("proven", "kappa_any"))],
        ],
    ),
    Fact(
        "For {} it reaches the bound of lambda, 2f / (n - f).",
        lambda: [", ".join(exact("lambda_proven", "lambda_any")).upper()],
    ),
    Fact("After the trimmed mean, the least kappa on any updates is found for {}.", second_least),
)
