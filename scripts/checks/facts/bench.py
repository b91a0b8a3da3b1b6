"""The facts of results/bench/README.md."""

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import before, extremes, runs


def _times(threads: int, *names: str) -> list[float]:
    """The milliseconds of rules today and before, from bench/before.csv."""
    table = runs("bench/before.csv").query("threads == @threads").set_index("what")
    return [float(table.loc[name, column]) for name in names for column in ("before_ms", "after_ms")]


def rounds_by(column: str, **places: object) -> "pd.Series[float]":
    """A column of bench/rounds.csv, of the rows that meet the conditions, by what was measured and its samples."""
    table = runs("bench/rounds.csv")
    chosen = table[(table[list(places)] == pd.Series(places)).all(axis=1)]
    return chosen.set_index(["what", "samples"])[column]


def rounded_cells() -> list[float]:
    """Of the cells of BOBA's Tables 1 and 2 at quick scale that end with a model: how many there are; in how many the
    accuracy with factors in bfloat16 is nearer than 0.5 points to that in float32, further than 2 points, and further
    than two deviations of three seeds in float32; the median and the largest difference; how much longer float32
    takes; and the cells in which the model diverged, in both."""
    table = runs("boba/quick_tables.csv")
    cells = table.assign(accuracy=100 * table["final_accuracy"]).groupby(["aggregator", "attack"], sort=False)
    gaps, wide, gone = [], 0, 0
    for _, cell in cells:
        medium, float32 = (cell[cell["precision"] == precision] for precision in ("medium", "highest"))
        own = float32[float32["seed"] == 0]
        if {*medium["state"], *own["state"]} == {"diverged"}:
            gone += 1
            continue
        gaps.append(abs(medium["accuracy"].item() - own["accuracy"].item()))
        wide += gaps[-1] > 2 * float32["accuracy"].std()
    found, seconds = pd.Series(gaps), table[table["seed"] == 0].groupby("precision")["seconds"].sum()
    return [len(found), (found < 0.5).sum(), (found > 2).sum(), wide, found.median(), found.max(),
            seconds["highest"] / seconds["medium"], gone]  # fmt: skip


def of_rounds(table: "pd.Series[float]") -> list[float]:
    """The least and the largest number of whole rounds."""
    rounds = table[[str(what).startswith("round") for what, _ in table.index]]
    return [float(rounds.min()), float(rounds.max())]


def second_thread() -> list[float]:
    """How many times as fast a second thread makes gradients of 600 and of 64 samples, now and before."""
    now = rounds_by("ms", threads=1, neighbours=0) / rounds_by("ms", threads=2, neighbours=0)
    old = runs("bench/before.csv").set_index(["threads", "what"])["before_ms"]
    before = [float(old[1, f"gradients, {n} samples"] / old[2, f"gradients, {n} samples"]) for n in (600, 64)]
    return [*(float(now["gradients", n]) for n in (600, 64)), *before]


def peers(rule: str) -> list[str]:
    """The fastest peer's time over a rule's, with one and two threads, by n and d, as the page writes it."""
    table = pd.concat([runs(f"bench/{name}.csv") for name in ("rules", "rules_500", "rules_large")])
    ratios = table[table["rule"] == rule].set_index(["d", "n", "threads"])["x fastest peer"].dropna()
    places = [(d, n) for d in (10_000, 199_210, 1_200_000) for n in (25, 115, 500)]
    return [", ".join(_ratio(float(ratios[d, n, t])) for t in (1, 2) if (d, n, t) in ratios.index) for d, n in places]


def _ratio(value: float) -> str:
    """A ratio as the page writes it: bold where the rule is clearly behind."""
    if value >= 9.95:
        return f"{value:.0f}"
    if value < 0.94:
        return f"**{value:.1f}**"
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}"


def stacked(column: str, inputs: int, hidden: str, samples: int) -> list[float]:
    """A column of bench/stack.csv for 2, 8 and 32 runs of a network."""
    table = runs("bench/stack.csv").astype({"hidden": str})
    chosen = table.query("inputs == @inputs and hidden == @hidden and samples == @samples").sort_values("runs")
    return [float(value) for value in chosen[column]]


PAGE = "results/bench/README.md"

FACTS = (
    Fact(
        "| average | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("average"),
    ),
    Fact(
        "| coomed | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("coomed"),
    ),
    Fact(
        "| trmean | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("trmean"),
    ),
    Fact(
        "| meamed | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("meamed"),
    ),
    Fact(
        "| krum | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("krum"),
    ),
    Fact(
        "| mkrum | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("mkrum"),
    ),
    Fact(
        "| b_krum | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("b_krum"),
    ),
    Fact(
        "| geomed | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("geomed"),
    ),
    Fact(
        "| rfa | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("rfa"),
    ),
    Fact(
        "| cge | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("cge"),
    ),
    Fact(
        "| centered_clipping | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("centered_clipping"),
    ),
    Fact(
        "| caf | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("caf"),
    ),
    Fact(
        "full batches take {:.1f} to {:.1f} times their bare matrix products",
        lambda: of_rounds(rounds_by("x products", samples=600)),
    ),
    Fact(
        "makes the gradients of full batches {:.1f} times as fast and of batches of 64 {:.1f} times; before, {:.1f} "
        "and {:.1f} times",
        second_thread,
    ),
    Fact(
        "makes a round on 2 threads {:.1f} to {:.1f} times as long",
        lambda: of_rounds(rounds_by("ms", threads=2, neighbours=2) / rounds_by("ms", threads=2, neighbours=0)),
    ),
    Fact(
        "client gradients are {:.1f} to {:.0f} times as fast as a plain autograd loop, but for a CNN with dropout "
        "({:.1f}) and a model of means ({:.1f})",
        lambda: [
            *extremes("bench/models.csv", "model not in ('dropout_cnn', 'mean')", "x loop", 1),
            *before("models", "x loop", ["dropout_cnn", "mean"]),
        ],
    ),
    Fact(
        "of {0} cells {1} are within 0.5 points of float32 with the same seed ({4:.2f} in the median), {2} differ by "
        "more than 2 points, by {5:.1f} at most, and {3} leave two deviations of three seeds. In {7} more the model "
        "diverges in both.",
        rounded_cells,
    ),
    Fact(
        "float32 took {6:.2f} times as long here",
        rounded_cells,
    ),
    Fact(
        "{:.1f} for LeNet, {:.1f} for the GRU, {:.1f} for a single layer",
        lambda: before("models_before", "x loop", ["lenet", "gru", "linear"]),
    ),
    Fact(
        "the GRU's gradients are {:.1f} times as fast, those of the CIFAR-10 CNN {:.2f}, of a single layer {:.1f}, "
        "of LeNet {:.2f}, of the MLP {:.2f} (",
        lambda: before("models_before", "x before", ["gru", "cnn", "linear", "lenet", "mlp"]),
    ),
    Fact(
        "with 214 clients is {:.1f} times as fast, one of CIFAR-10 with 115 clients {:.2f}",
        lambda: [float(runs(f"bench/rounds_{data}.csv")["before / now"].item()) for data in ("ag_news", "cifar10")],
    ),
    Fact(
        "take {:.1f} times less time with 600 samples per client, {:.1f} with 64 and {:.1f} with 16",
        lambda: [before(f"bfloat16_{samples}", "x in bfloat16", ["mlp"])[0] for samples in (600, 64, 16)],
    ),
    Fact(
        "a round takes {:.1f} times its matrix of 1.5 GiB, {:.1f} to {:.1f} times one of 0.4 GiB",
        lambda: [
            extremes("bench/scaling_memory.csv", "n == 400", "x matrix", 1)[1],
            *extremes("bench/scaling_memory.csv", "n == 100 and d == 999_985", "x matrix", 1),
        ],
    ),
    Fact(
        "cost {:.1f}, {:.1f} and {:.1f} times less with 2, 8 and 32 runs of the arena's network on digits, and "
        "{:.1f}, {:.1f} and {:.1f} times less",
        lambda: [*stacked("ratio", 64, "32", 57), *stacked("ratio", 784, "32", 32)],
    ),
    Fact(
        "costs {:.1f} times less with Krum and {:.1f} times less with the trimmed mean",
        lambda: before("stack_cells", "ratio", ["krum", "trmean"], "rule"),
    ),
    Fact(
        "a round of `worst` costs {:.0f} to {:.0f} rounds without attack, and cost {:.0f} to {:.0f} when",
        lambda: [
            *extremes("bench/questions.csv", "attack == 'worst'", "at once / none", 1),
            *extremes("bench/questions.csv", "attack == 'worst'", "one by one / none", 1),
        ],
    ),
    Fact(
        "the Gram matrix takes {1:.0f} ms for {0:.0f}, boba {3:.0f} for {2:.0f}, krum {5:.0f} for "
        "{4:.0f}, b_krum {7:.0f} for {6:.0f}, fltrust {9:.0f} for {8:.0f}, zeno {11:.0f} for {10:.0f}.",
        lambda: _times(2, "Gram", "boba", "krum", "b_krum", "fltrust", "zeno"),
    ),
    Fact(
        "trmean takes {1:.0f} for {0:.0f} and coomed {3:.0f} for {2:.0f}, with one thread "
        "{5:.0f} for {4:.0f} and {7:.0f} for {6:.0f}.",
        lambda: [*_times(2, "trmean", "coomed"), *_times(1, "trmean", "coomed")],
    ),
    Fact(
        "from one matrix: {:.1f} ms at n = 25, f = 3, d = 10,000",
        lambda: list(
            runs("bench/rules.csv").query("rule == 'smea' and n == 25 and d == 10_000 and threads == 1")["ms"]
        ),
    ),
    Fact(
        "{:.0f} runs of 200 rounds, takes {:.1f} hours of both cores",
        lambda: [
            float(runs("bench/tables.csv").query("rule == 'all'")[column].sum()) / share
            for column, share in (("runs", 1), ("hours of a core", 2))
        ],
    ),
)
