"""The facts of results/successors/README.md on Karimireddy et al."""

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import percent, runs

PAGE = "results/successors/README.md"

FACTS = (
    Fact(
        "{:.2f} here, 97.87 published",
        lambda: percent("karimireddy/runs.csv", "aggregator == aggregator"),
    ),
    Fact(
        "the run above took {:.0f} minutes of one core.",
        lambda: [float(runs("karimireddy/runs.csv")["seconds"].item()) / 60],
    ),
)
