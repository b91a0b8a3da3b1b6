"""The facts of results/karimireddy/README.md."""

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import percent

PAGE = "results/karimireddy/README.md"

FACTS = (
    Fact(
        "{:.2f} here, 97.87 published",
        lambda: percent("karimireddy/runs.csv", "aggregator == aggregator", column="final_accuracy"),
    ),
)
