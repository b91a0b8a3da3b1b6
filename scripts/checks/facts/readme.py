"""The facts of README.md."""

from robustfl_bench.runner.store.kept import sealed_content
from scripts.checks.facts.fact import RESULTS, Fact
from scripts.checks.facts.kept import arena_answer, arena_size, reproduced


def demo() -> list[str]:
    """The rows of the table that `make run` prints."""
    from robustfl_bench.read.runs import archive
    from robustfl_bench.read.tables.layout import render
    from robustfl_bench.read.tables.pivot import pivot

    table = pivot(archive.read(str(RESULTS / "demo.csv")), "aggregator", "attack", "final_accuracy")
    _, _, *rows = (line for line in render([table], "markdown").splitlines() if line.startswith("| "))
    return [" ".join(rows)]


def entry() -> list[float]:
    """The seconds that the arena's version 1 takes for two rules."""
    lines = sealed_content(RESULTS / "bench" / "stack_entry.txt").decode().splitlines()
    seconds = {words[0]: float(words[-1]) for line in lines if (words := line.split())[-1:] and line[:1].isalpha()
               and words[-1].replace(".", "").isdigit()}  # fmt: skip
    return [seconds["trmean"], seconds["boba"]]


PAGE = "README.md"

FACTS = (
    Fact("| --- | ---: | ---: | ---: | ---: | {} ## Your own rule", demo),
    Fact(
        "runs {} rules under {} attacks, and {} under harder ones;",
        lambda: [*arena_size(), arena_answer()[6]],
        slow=True,
    ),
    Fact(
        "rules that {} to {} seeds cannot tell from the first, and the least of their scores. Server data: {} samples, "
        "of which a model alone scores {:.0f} to {:.0f}. In each case [version 2](results/arena/silos.md) has at least "
        "{} rules, {} of them of [version 1](results/arena/README.md), and {} attacks.",
        lambda: [*arena_answer()[:5], *arena_answer()[6:8], arena_answer()[5]],
        slow=True,
    ),
    Fact("{:.0f} s of two cores with the trimmed mean, {:.0f} s with BOBA", entry),
    Fact(
        "Of {} cells that are no formulas, {} are measured, {} with one seed; {} are inside.",
        lambda: [reproduced()[0], *reproduced()[2:5]],
        slow=True,
    ),
)
