"""The facts of results/byzfl/README.md."""

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import percent

PAGE = "results/byzfl/README.md"

FACTS = (
    Fact(
        "{:.2f} here, 97.33 published",
        lambda: percent("byzfl/runs.csv", "aggregator == aggregator", column="final_accuracy"),
    ),
)
