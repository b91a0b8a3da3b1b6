"""The facts of results/bench/README.md."""

from functools import partial

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import before, ends, extremes, measured_in, runs


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
    return ends(table[[str(what).startswith("round") for what, _ in table.index]])


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
    if value < BEHIND:
        return f"**{value:.1f}**"
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}"


def behind() -> list[int]:
    """In how many of the calls of the arena's shape that another library has, too, one is clearly ahead, and how many
    there are."""
    ratios = runs("bench/rules_small.csv").query("n == 25 and d == 2410")["x fastest peer"].dropna()
    return [int((ratios < BEHIND).sum()), len(ratios)]


def stacked(column: str, inputs: int, hidden: str, samples: int) -> list[float]:
    """A column of bench/stack.csv for 2, 8 and 32 runs of a network."""
    table = runs("bench/stack.csv").astype({"hidden": str})
    chosen = table.query("inputs == @inputs and hidden == @hidden and samples == @samples").sort_values("runs")
    return [float(value) for value in chosen[column]]


def largest(section: str, cases: str = "verdict == 'ok'") -> list[float]:
    """How many cases of a section were asked, and the largest difference among them."""
    table = measured_in(f"cuda/{section}.csv").query(cases)
    return [len(table), table["value"].max()]


def answers(section: str, *cases: str) -> list[float]:
    """The answers to cases of a section of cuda_check.py."""
    values = measured_in(f"cuda/{section}.csv").set_index("case")["value"]
    return [values[case] for case in cases]


def seconds(runs: int, mps: str) -> list[float]:
    """The least and the largest time of runs that went at once."""
    (times,) = measured_in("cuda/at_once.csv").query("runs == @runs and mps == @mps")["seconds"]
    return ends(map(float, str(times).split()))


PAGE = "results/bench/README.md"
BY_COORDINATE, BY_DISTANCE = ("average", "coomed", "trmean", "meamed"), ("krum", "mkrum", "b_krum", "geomed", "rfa")
BY_LENGTH = ("cge", "centered_clipping", "caf")
"""The rules that other packages have, too."""
BEHIND = 0.94
"""A peer's time over ours, below which it is clearly ahead."""

FACTS = (
    *(Fact(f"| {rule} |{' {} |' * 9}", partial(peers, rule)) for rule in (*BY_COORDINATE, *BY_DISTANCE, *BY_LENGTH)),
    Fact("With attacks it is at the arena's 25 x 2,410 in {} of {}, as ours check input.**", behind),
    Fact(
        "full batches take {:.1f} to {:.1f} times their bare matrix products",
        lambda: of_rounds(rounds_by("x products", samples=600)),
    ),
    Fact(
        "client gradients are {:.2f} to {:.0f} times as fast as a plain autograd loop and {:.2f} to {:.0f} times as "
        "`vmap(grad)`, but for a model of means of 20 parameters ({:.2f}, {:.2f})",
        lambda: [
            *extremes("bench/models.csv", "model != 'mean'", "x loop", 1),
            *extremes("bench/models.csv", "model != 'mean'", "x vmap", 1),
            *before("models", "x loop", ["mean"]),
            *before("models", "x vmap", ["mean"]),
        ],
    ),
    Fact(
        "of {0} cells {1} are within 0.5 points of float32 with the same seed ({4:.2f} in the median), {2} differ by "
        "more than 2 points, by {5:.1f} at most, and {3} leave two deviations of three seeds. In {7} more the model "
        "diverges in both.",
        rounded_cells,
    ),
    Fact(
        "take {:.1f} times less time with 600 samples per client, {:.1f} with 64 and {:.1f} with 16",
        lambda: [before(f"bfloat16_{samples}", "x in bfloat16", ["mlp"])[0] for samples in (600, 64, 16)],
    ),
    Fact(
        "A round takes {:.1f} times its matrix of 1.5 GiB, {:.1f} to {:.1f} times one of 0.4 GiB",
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
        "{:.0f} runs of 200 rounds, takes {:.1f} hours of both cores",
        lambda: [
            float(runs("bench/tables.csv").query("rule == 'all'")[column].sum()) / share
            for column, share in (("runs", 1), ("hours of a core", 2))
        ],
    ),
    Fact("| gradients of every model | {} | {:.1e} of", lambda: largest("models")),
    Fact("that the data allow | {} | {:.1e} of", lambda: largest("attacks")),
    Fact("with every local update | {} | {:.1e} of", lambda: largest("local_updates")),
    Fact("with every pre-aggregation | {} | {:.1e} of", lambda: largest("pre_aggregations")),
    Fact("after 50 rounds | {} | {:.1e} of it", lambda: largest("golden", "unit == 'of the test loss'")),
    Fact("`precision=highest` | {} | {:.1e} |", lambda: largest("exactness")),
    Fact(
        "reading the updates once takes {:.2f} ms, their Gram matrix in float64 {:.2f} ms and sorting them {:.2f} ms. "
        "Average takes {:.2f} ms, GeoMed {:.2f} ms and BOBA {:.2f} ms; the slowest rule is MDA, {:.2f} ms.",
        lambda: answers("bounds", "reading", "Gram", "sort", "average", "geomed", "boba", "mda"),
    ),
    Fact(
        "a round of RAGA's LeNet takes {:.1f} ms instead of {:.1f} and one of BOBA's MLP {:.1f} instead of {:.1f}",
        lambda: answers(
            "recorded",
            "raga, LeNet, recorded",
            "raga, LeNet, one by one",
            "boba, MLP, recorded",
            "boba, MLP, one by one",
        ),
    ),
    Fact(
        "The device computes for {:.1f} and {:.1f} ms of these",
        lambda: answers("recorded", "raga, LeNet, computing", "boba, MLP, computing"),
    ),
    Fact("| 1 | {:.1f} |", lambda: seconds(1, "no")[:1]),
    Fact("| 14 | {:.1f} to {:.1f} |", lambda: seconds(14, "no")),
    Fact("| 14, with NVIDIA's MPS | {:.1f} to {:.1f} |", lambda: seconds(14, "yes")),
)
