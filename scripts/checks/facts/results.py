"""The facts of results/README.md."""

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import reproduced

PAGE = "results/README.md"

FACTS = (
    Fact(
        "Of the five papers' {} published numbers that need runs ({} more follow from formulas), {} are measured, {} "
        "of them with one seed: {} are inside, {} of these models that diverged as printed, and {} within two points.",
        reproduced,
        slow=True,
    ),
)
