"""The facts of results/arfl/README.md on BRIFCA."""

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import ends, interval, measured_in, runs

METHODS = {"median": "coomed", "trimmed mean": "beta_trmean", "IFCA": "average", "Three-Stage": "three_stage"}


BRIFCA = {
    "clustering.init": "bernoulli",
    "clustering.empty": "keep",
    "clustering.scale_by_share": False,
    "attack.loss_at_3theta": False,
    "clustering.erm": "lstsq",
    "clustering.kmeans_init": "restarts",
    "clustering.restarts": 10,
    "clustering.unit_norm": False,
    "lr": 0.01,
    "rounds": 300,
}  # the fair variant


@cache
def brifca() -> pd.DataFrame:
    """The runs of BRIFCA's figure, each with its method."""
    table = runs("brifca/runs.csv.gz")
    method = table["aggregator"].where(table["clustering"] == "ifca", "three_stage")
    return table.assign(method=method)


def distances(method: str, dim: int, clusters: int, attackers: bool = True, **changes: object) -> pd.Series:
    """The distances of the runs that differ from the fair variant by the changes alone, by seed."""
    table = brifca()
    chosen = table[
        (table["method"] == METHODS[method])
        & (table["dataset.dim"] == dim)
        & (table["dataset.num_clusters"] == clusters)
        & ((table["num_byzantine"] > 0) == attackers)
    ]
    start = {"clustering.init": "model"} if method == "Three-Stage" else {}
    for column, value in (BRIFCA | start | {f"clustering.{name}": value for name, value in changes.items()}).items():
        chosen = chosen[chosen[column].isna() | (chosen[column] == value)]
    return chosen.set_index("seed")["last.distance"]


def published(method: str, dim: int, clusters: int) -> float:
    """The mean distance to the nearest truth as published, where runs have 299 rounds."""
    chosen = brifca().query("rounds == 299 and `dataset.dim` == @dim and `dataset.num_clusters` == @clusters")
    return float(chosen[chosen["method"] == METHODS[method]]["last.distance_nearest"].mean())


def more_clusters(distance: Callable[[str, int, int], float]) -> list[int]:
    """In how many steps to more clusters a method gets worse with 500 dimensions, of how many."""
    means = [[distance(method, 500, clusters) for clusters in (2, 5, 10, 15)] for method in METHODS]
    steps = [after > before for line in means for before, after in pairwise(line)]
    return [sum(steps), len(steps)]


def ifca_behind(distance: Callable[[str, int, int], float]) -> list[float]:
    """By how much IFCA is farther than Algorithm 1 with either rule, at least and at most of the figure's cells."""
    cells = {(d, k) for d in (20, 50, 100, 200, 500) for k in (5, 10)} | {(500, k) for k in (2, 5, 10, 15)}
    return ends(
        [distance("IFCA", *cell) - distance(rule, *cell) for cell in cells for rule in ("median", "trimmed mean")]
    )


def restarts_gain(*methods: str) -> list[float]:
    """By how much Three-Stage with 200 restarts of k-means is nearer than methods at d = 500 with 5 clusters."""
    nearer = distances("Three-Stage", 500, 5, restarts=200)
    return [interval(distances(method, 500, 5), nearer)[0] for method in methods]


def on_shared_seeds(*variants: pd.Series) -> list[float]:
    """The mean of each over the seeds that all have."""
    shared = set.intersection(*(set(each.index) for each in variants))
    return [float(each[each.index.isin(shared)].mean()) for each in variants]


def slopes(figure: str) -> list[str]:
    """The slopes of the median's and the trimmed mean's errors, with their intervals, as the lines are called."""
    return [line.partition(", ")[2] for line in measured_in(f"brifca/{figure}.csv")["line"].unique()]


PAGE = "results/arfl/README.md"

FACTS = (
    Fact(
        "in every cell: by {:.2f} to {:.2f} as the text describes it, by {:.2f} to {:.2f} with the authors' code.",
        lambda: [*ifca_behind(lambda *cell: float(distances(*cell).mean())), *ifca_behind(published)],
    ),
    Fact(
        "with 10 clusters IFCA is worse ({:.2f} against {:.2f}), with 5 no difference shows ({:.2f} and {:.2f}).",
        lambda: [published(method, 100, clusters) for clusters in (10, 5) for method in ("IFCA", "Three-Stage")],
    ),
    Fact(
        "with 200 restarts instead of 10, the distance with 5 clusters falls from {:.2f} to {:.2f}.",
        lambda: on_shared_seeds(*(distances("Three-Stage", 500, 5, restarts=restarts) for restarts in (10, 200))),
    ),
    Fact(
        "by {:.2f} to {:.2f} in the fair variant and by {:.2f} to {:.2f} as published.",
        lambda: [*ifca_behind(lambda *cell: float(distances(*cell).mean())), *ifca_behind(published)],
    ),
    Fact(
        "in {} of {} steps as published and in {} of {} in the fair variant",
        lambda: [*more_clusters(published), *more_clusters(lambda *cell: float(distances(*cell).mean()))],
    ),
    Fact(
        "the distance at d = 20 falls from 0.2 to between {:.2f} and {:.2f}.",
        lambda: [
            bound(
                [float(distances(method, 20, 5, init="warm").mean()) for method in ("median", "trimmed mean", "IFCA")]
            )
            for bound in (min, max)
        ],
    ),
    Fact(
        "Attackers cost IFCA with the average {:.2f} at d = 500 (95% interval {:.2f} to {:.2f}).",
        lambda: interval(distances("IFCA", 500, 5), distances("IFCA", 500, 5, attackers=False)),
    ),
    *(
        Fact(
            "clearly below the median and IFCA of the fair variant, by {:.2f} each on the 20 trials that all have; the "
            "{:.2f} to the trimmed mean",
            partial(restarts_gain, method, "trimmed mean"),
        )
        for method in ("median", "IFCA")
    ),
    Fact(
        "leave (1 - 0.02 / k)^299 of the way, {:.0f}% with 5 clusters and {:.0f}% with 10.",
        lambda: [100 * (1 - 0.02 / clusters) ** 299 for clusters in (5, 10)],
    ),
    Fact(
        "the published variant has {}, the fair variant {} or more, and each ablation {}; where a claim lacked trials, "
        "up to {}.",
        lambda: [
            int(brifca().query("rounds == 299 and seed < 50")["seed"].nunique()),
            min(len(distances(method, dim, 10)) for method in ("IFCA", "Three-Stage") for dim in (20, 500)),
            len(distances("IFCA", 500, 5, init="warm")),
            int(brifca()["seed"].max()) + 1,
        ],
    ),
    *(
        Fact(f"(`{figure}`) | {{}} | {{}} |", partial(slopes, figure))
        for figure in ("error_points", "error_clients", "error_dimension", "error_attackers")
    ),
)
