"""The facts of results/diloco/README.md."""

from scripts.checks.facts.fact import Fact
from scripts.generators import sites


def left(workers: int, rule: str, attack: str) -> float:
    """The mean accuracy of a rule under an attack, in percent."""
    table = sites.accuracies(sites.WORKERS, "final_accuracy")
    return float(table.loc[(workers, rule, "none", attack)].mean())


def table() -> list[str]:
    """The table, as a page has it in one line."""
    return [" ".join(sites.workers().split())]


PAGE = "results/diloco/README.md"

FACTS = (
    Fact(
        "the median keeps {:.1f}% of {:.1f}% if one of four workers lies as harmfully as it can, the mean {:.1f}%",
        lambda: [left(4, "coomed", "worst"), left(4, "coomed", "none"), left(4, "average", "worst")],
    ),
    Fact(
        "Without a liar the median has {:.1f}%, the mean {:.1f}%",
        lambda: [left(4, "coomed", "none"), left(4, "average", "none")],
    ),
    Fact(
        "`norm_bound` keeps {:.1f}% of four workers, `centered_clipping` {:.1f}%",
        lambda: [left(4, "norm_bound", "worst"), left(4, "centered_clipping", "worst")],
    ),
    Fact(
        "Of eight workers SignGuard keeps {:.1f}% of {:.1f}%, the most of seven rules.",
        lambda: [left(8, "signguard", "worst"), left(8, "signguard", "none")],
    ),
    Fact("Multi-Krum needs more than four workers: {} ", table),
)
