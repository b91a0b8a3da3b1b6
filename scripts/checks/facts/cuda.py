"""The facts of results/cuda/README.md."""

from robustfl_bench.runner.store.kept import FOLDER, files
from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import measured_in, runs

PAGE = "results/cuda/README.md"


def largest(section: str, cases: str = "verdict == 'ok'") -> list[float]:
    """How many cases of a section were asked, and the largest difference among them."""
    table = measured_in(f"cuda/{section}.csv").query(cases)
    return [len(table), table["value"].max()]


def milliseconds(*cases: str) -> list[float]:
    """How long parts of an aggregation, or rules, take."""
    times = measured_in("cuda/bounds.csv").set_index("case")["value"]
    return [times[case] for case in cases]


def seconds(runs: int, mps: str) -> list[float]:
    """The least and the largest time of runs that went at once."""
    (times,) = measured_in("cuda/at_once.csv").query("runs == @runs and mps == @mps")["seconds"]
    found = [float(time) for time in str(times).split()]
    return [min(found), max(found)]


def on_the_gpu() -> int:
    """The kept runs that a GPU made."""
    tables = [runs(path.relative_to(FOLDER).as_posix()) for path in files() if path.parent.name in ("boba", "raga")]
    return sum(int(table["device"].str.startswith("cuda", na=False).sum()) for table in tables)


FACTS = (
    Fact("| gradients of every model | {} | {:.1e} of", lambda: largest("models")),
    Fact("that the data allow | {} | {:.1e} of", lambda: largest("attacks")),
    Fact("with every local update | {} | {:.1e} of", lambda: largest("local_updates")),
    Fact("with every pre-aggregation | {} | {:.1e} of", lambda: largest("pre_aggregations")),
    Fact("after 50 rounds | {} | {:.1e} of it", lambda: largest("golden", "unit == 'of the test loss'")),
    Fact("`precision=highest` | {} | {:.1e} |", lambda: largest("exactness")),
    Fact(
        "reading the updates once takes {:.2f} ms, their Gram matrix in float64 {:.2f} ms and sorting them {:.2f} ms. "
        "Average takes {:.2f} ms, GeoMed {:.2f} ms and BOBA {:.2f} ms; the slowest rule is MDA, {:.2f} ms.",
        lambda: milliseconds("reading", "Gram", "sort", "average", "geomed", "boba", "mda"),
    ),
    Fact("| 1 | {:.1f} |", lambda: seconds(1, "no")[:1]),
    Fact("| 14 | {:.1f} to {:.1f} |", lambda: seconds(14, "no")),
    Fact("| 14, with NVIDIA's MPS | {:.1f} to {:.1f} |", lambda: seconds(14, "yes")),
    Fact("In 32 minutes four such machines made {} runs", lambda: [on_the_gpu()]),
)
