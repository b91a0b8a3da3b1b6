"""Prints the site's page of the verdict on FedSCS, from the accuracy of every run in results/judge/fedscs.

    python -m scripts.generators.verdict

The cost of a call in it is that of the machine that makes the page.
"""

import csv
import sys
from pathlib import Path

from robustfl_bench.lab.studies import judge
from robustfl_bench.read.tables import sheets

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from fedscs import FedScs

PAGE = "results/judge/fedscs/verdict.md"
KEPT = Path(__file__).parents[2] / "results" / "judge" / "fedscs" / "accuracy.csv"
CLIENTS, ATTACKERS = 25, 5
ABOUT = (
    "`python -m scripts.generators.verdict` prints this page; [README.md](../README.md) says what the rule is, and "
    "what follows from it."
)
COMMAND = "robustfl-bench judge fedscs:FedScs --against mkrum"


def judgement() -> judge.Judgement:
    """The rule beside the others in the kept runs."""
    rule, accuracies = FedScs(), dict[tuple[str, str, str], dict[str, float]]()
    with KEPT.open() as file:
        for row in csv.DictReader(file):
            cell = (row["aggregator"], row["partition"], row["attack"])
            accuracies.setdefault(cell, {})[row["seed"]] = float(row["test_accuracy"])
    return judge.Judgement(
        rule="fed_scs",
        rivals=("average", "coomed", "mkrum"),
        trial=judge.FULL,
        promises=judge.promises(rule, ATTACKERS, CLIENTS),
        exempt=rule.exempt,
        cost=judge.cost(rule, CLIENTS),
        clients=CLIENTS,
        num_byzantine=ATTACKERS,
        accuracies=accuracies,
        command=COMMAND,
    )


def page() -> str:
    """The verdict and its tables."""
    return f"# The verdict on FedSCS\n\n{ABOUT}\n\n{sheets.markdown(judge.page(judgement()))}"


if __name__ == "__main__":
    print(page(), end="")
