"""The facts of results/README.md."""

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import reproduced

PAGE = "results/README.md"

FACTS = (
    Fact(
        "Of the five papers' {} published numbers that need runs ({} more follow from formulas), {} are measured, {} "
        "of them with one seed: {} are [inside](GLOSSARY.md), {} within two points, {} within the printed spread only, "
        "and {} diverged as printed.",
        reproduced,
        slow=True,
    ),
)
