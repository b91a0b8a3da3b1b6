"""The facts of results/successors/README.md on ByzFL."""

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import percent

PAGE = "results/successors/README.md"

FACTS = (
    Fact(
        "{:.2f} here, 97.33 published",
        lambda: percent("byzfl/runs.csv", "aggregator == aggregator"),
    ),
)
