"""The facts of README.md."""

from typing import Any

from scripts.checks.facts.fact import RESULTS, Fact
from scripts.checks.facts.kept import arena_answer, arena_size, reproduced, runs


def demo() -> list[str]:
    """The rows of the table that `make run` prints."""
    from robustfl_bench.runs import archive
    from robustfl_bench.tables.layout import render
    from robustfl_bench.tables.pivot import pivot

    table = pivot(archive.read(str(RESULTS / "demo.csv")), "aggregator", "attack", "final_accuracy")
    _, _, *rows = (line for line in render([table], "markdown").splitlines() if line.startswith("| "))
    return [" ".join(rows)]


def _of_rules(path: str) -> Any:
    return runs(path).query("dataset == 'digits'").groupby("aggregator")["seconds"]


def row_runs() -> list[int]:
    """The runs of the arena that choose a rule's rate, and the most others of a rule."""
    return [int(_of_rules(f"arena/{name}.csv.gz").size().max()) for name in ("rates", "runs")]


def row_minutes() -> list[float]:
    """The minutes of these runs, of the median rule."""
    return [float(_of_rules(f"arena/{name}.csv.gz").sum().median() / 60) for name in ("rates", "runs")]


PAGE = "README.md"

FACTS = (
    Fact("| --- | ---: | ---: | ---: | ---: | {} ## Your own rule", demo),
    Fact("runs {} rules under {} attacks in one protocol", arena_size, slow=True),
    Fact(
        '"And {} more": {} to {} seeds cannot tell these rules from the first. A server with the {} samples that such '
        "rules read scores {:.0f} to {:.0f} alone. [Version 2 of the arena](results/arena/silos.md) has {} attacks "
        "and attackers who plan, so far at least {} rules a case; [version 1](results/arena/README.md) {} rules, {} "
        "attacks, {} seeds.",
        arena_answer,
        slow=True,
    ),
    Fact(
        "is {} runs that choose its learning rate and at most {} cells: {:.1f} and {:.1f} minutes of a core for the "
        "median rule.",
        lambda: [*row_runs(), *row_minutes()],
    ),
    Fact(
        "Of the {} numbers in the five papers' tables that need runs, {} are measured so far, {} of them with one "
        "seed, and {} agree",
        lambda: [reproduced()[0], *reproduced()[2:5]],
        slow=True,
    ),
)
