"""The facts of README.md."""

from scripts.checks.facts.fact import RESULTS, Fact
from scripts.checks.facts.kept import reproduced


def demo() -> list[str]:
    """The rows of the table that `make run` prints."""
    from robustfl_bench.read.runs import archive
    from robustfl_bench.read.tables.layout import render
    from robustfl_bench.read.tables.pivot import pivot

    table = pivot(archive.read(str(RESULTS / "demo.csv")), "aggregator", "attack", "final_accuracy")
    _, _, *rows = (line for line in render([table], "markdown").splitlines() if line.startswith("| "))
    return [" ".join(rows)]


PAGE = "README.md"

FACTS = (
    Fact("| --- | ---: | ---: | ---: | ---: | {} ## Your own rule", demo),
    Fact(
        "Of {} numbers that need runs {} are measured, {} with one seed.",
        lambda: [reproduced()[0], *reproduced()[2:4]],
        slow=True,
    ),
)
