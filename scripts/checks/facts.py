"""Recomputes the numbers in the sentences of pages from the runs that are kept in results/. Run: make facts

A fact is a sentence of a page with ``{}`` in the place of each number, and a function that computes these numbers. The
sentence with the computed numbers must stand on the page. What `make agreement`, `make arena`, `make catalogue` or a
command writes is no fact, and neither are the checks of results/forensics.md, which are doctests.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache, partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
PAPERS = ("arfl", "boba", "brace", "brifca", "raga")


@dataclass(frozen=True)
class Fact:
    """A sentence of a page, with a format such as ``{:.1f}`` for each number, and what computes the numbers.

    ``slow``: computing takes more than a few seconds.
    """

    page: str
    sentence: str
    numbers: Callable[[], Sequence[object]]
    slow: bool = False

    def problem(self) -> str | None:
        """What is wrong with the sentence, in one line; None if it stands on the page with the computed numbers."""
        text = _plain((ROOT / self.page).read_text(encoding="utf-8"))
        sentence = _plain(self.sentence.format(*self.numbers()))
        if sentence in text:
            return None
        parts = re.split(r"\{[^}]*\}", _plain(self.sentence))
        written = re.search(r"(?:[\d.,-]*\d(?:st|nd|rd|th)?|[a-z]+)".join(map(re.escape, parts)), text)
        if written is None:
            return f"{self.page}: no such sentence: {_plain(self.sentence)}"
        return f"{self.page}: {written[0]!r}; the runs give {sentence!r}"


def _plain(text: str) -> str:
    """A text without line breaks and other spacing."""
    return " ".join(text.split())


@cache
def runs(path: str) -> pd.DataFrame:
    """The kept runs of a CSV file in results/."""
    return pd.read_csv(RESULTS / path, low_memory=False)


def percent(path: str, *conditions: str, column: str = "best_accuracy") -> list[float]:
    """The number of the only run that meets each condition, in percent."""
    return [100 * float(runs(path).query(condition)[column].item()) for condition in conditions]


def extremes(path: str, condition: str, column: str = "best_accuracy", factor: float = 100) -> list[float]:
    """The least and the largest number of the runs that meet a condition, in percent."""
    values = factor * runs(path).query(condition)[column]
    return [float(values.min()), float(values.max())]


def _times(threads: int, *names: str) -> list[float]:
    """The milliseconds of rules today and before, from bench/before.csv."""
    table = runs("bench/before.csv").query("threads == @threads").set_index("what")
    return [float(table.loc[name, column]) for name in names for column in ("before_ms", "after_ms")]


# --- papers -----------------------------------------------------------------------------------------------------------


@cache
def reproduced() -> tuple[int, ...]:
    """Of the five papers' numbers: how many need runs, follow from formulas, are measured, measured with one seed,
    inside, and within two points."""
    from robustfl_bench.runs import archive
    from robustfl_bench.tables import scorecard
    from robustfl_bench.tables.described import papers

    scores = scorecard.scored({name: papers()[name] for name in PAPERS}, archive.kept())
    whole = [(table, cell) for score in scores for table in score.tables.values() for cell in table.cells.values()]
    published = [(table, cell) for table, cell in whole if cell.against is not None]
    formulas = [cell for table, cell in published if "Mbit" in {column.value.unit for column in table.columns}]
    kept = [(table, cell) for table, cell in published if cell not in formulas and not table.stand_in]
    measured = [(table, cell) for table, cell in kept if cell.inside is not None]
    near = [cell for table, cell in measured if abs(cell.difference or 0) <= _two_points(table)]
    return (
        len(kept),
        len(formulas),
        len(measured),
        sum(cell.seeds == 1 for _, cell in measured),
        sum(bool(cell.inside) for _, cell in measured),
        len(near),
    )


def _two_points(table: Any) -> float:
    return 0.02 if "fraction" in {column.value.unit for column in table.columns} else 2.0


def _raga(phi: float) -> str:
    return f"`partition.alpha` == {phi} and model == 'mlp'"


def raga_first(phi: float) -> list[object]:
    """In how many columns of Table III RAGA is first, and the number of columns."""
    table = runs("raga/runs.csv").query(_raga(phi)).pivot(
        index="aggregator", columns=["attack", "num_byzantine"], values="best_accuracy"
    )  # fmt: skip
    return [int((table.idxmax() == "raga").sum()), table.shape[1]]


def points(path: str, line: str, **places: object) -> list[float]:
    """The means of a line of a figure's points that meet the conditions, in their order."""
    table = pd.read_csv(RESULTS / path, comment="#")
    chosen = table[(table["line"] == line) & (table[list(places)] == pd.Series(places)).all(axis=1)]
    return [float(value) for value in chosen["mean"]]


def spread(path: str, lines: Iterable[str], factor: float = 1, **places: object) -> list[float]:
    """The least and the largest of the points of several lines of a figure."""
    values = [factor * value for line in lines for value in points(path, line, **places)]
    return [min(values), max(values)]


def fig4_of_raga(network: str, lines: Iterable[str], attacks: Sequence[str] = ("gaussian", "lie")) -> list[float]:
    """The least and the largest accuracy of methods in Fig. 4 at quick scale."""
    both = [spread("raga/fig4_quick.csv", lines, panel=f"mnist {network}, {attack}") for attack in attacks]
    return [min(low for low, _ in both), max(high for _, high in both)]


@cache
def brace() -> pd.DataFrame:
    """BRACE's Table 2(a): the test error of each rule under each attack."""
    return 1 - runs("brace/runs.csv").pivot(index="aggregator", columns="attack", values="final_accuracy")


def brace_harm() -> list[float]:
    """By how much the error of BRACE grows under noise, and under the Krum attack, the backdoor and Trim at least and
    at most."""
    harm = brace().loc["brace"] - brace().loc["brace", "none"]
    others = harm[["krum_attack", "backdoor", "trim_attack"]]
    return [float(harm["gaussian"]), float(others.min()), float(others.max())]


def brace_worst() -> list[float]:
    """The largest error of BRACE, Krum and RAR under an attack, and the least and largest of the other rules."""
    worst = brace().max(axis=1)
    others = worst.drop(["brace", "krum", "rar"])
    return [*(float(worst[rule]) for rule in ("brace", "krum", "rar")), float(others.min()), float(others.max())]


def brace_first() -> list[object]:
    """In how many columns BRACE has the least error, of how many, and by how much it misses it elsewhere."""
    gap = brace().loc["brace"] - brace().min()
    missed = gap[gap > 0]
    return [int((gap == 0).sum()), len(gap), float(missed.min()), float(missed.max())]


def weightless() -> list[int]:
    """The first round of Fig. 6 on MNIST from which no bad client has any weight."""
    table = pd.read_csv(RESULTS / "arfl/fig6_mnist.csv", comment="#")
    weights = table[table["line"].str.startswith("byzantine")].groupby("x")["mean"].max()
    return [int(weights[weights > 0].index.max()) + 1]


def demo() -> list[str]:
    """The rows of the table that `make run` prints."""
    from robustfl_bench.runs import archive
    from robustfl_bench.tables.layout import render
    from robustfl_bench.tables.pivot import pivot

    table = pivot(archive.read(str(RESULTS / "demo.csv")), "aggregator", "attack", "final_accuracy")
    lines = render([table], "markdown").splitlines()
    return [
        " ".join(line for line in lines if line.startswith("| ") and "---" not in line and "aggregator" not in line)
    ]


# --- attack=worst, FedBuff and resilience -----------------------------------------------------------------------------

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORST = ("none", "worst", "worst_ahead_3")


@cache
def adversaries(data: str, seeds: int) -> pd.DataFrame:
    """The mean accuracy of each rule under each attack and strength that was run with all of the first seeds."""
    table = runs(f"worst/{data}.csv").query("seed < @seeds")
    strength = table["strength"].map(lambda value: "" if pd.isna(value) else f" {value:g}")
    cells = table.groupby(["rule", table["attack"] + strength])["test_accuracy"].agg(["mean", "size"])
    return cells[cells["size"] == seeds]["mean"].unstack()


def stronger(data: str, seeds: int) -> pd.Series:
    """How many single attacks take over a point of accuracy more from each rule than worst."""
    table = adversaries(data, seeds)
    return table.drop(columns=[*WORST]).lt(table["worst"] - 0.01, axis=0).sum(axis=1)


def helpful(data: str, seeds: int) -> pd.Series:
    """How many single attacks give each rule over a point of accuracy."""
    table = adversaries(data, seeds)
    return table.drop(columns=[*WORST]).gt(table["none"] + 0.01, axis=0).sum(axis=1)


def under(data: str, seeds: int, rule: str, *attacks: str) -> list[float]:
    """The mean accuracy of a rule under attacks, in percent."""
    return [100 * float(adversaries(data, seeds).loc[rule, attack]) for attack in attacks]


def diverged() -> list[object]:
    """The rule, and the strengths of ipm and noise, of the runs on digits that diverged."""
    table = runs("worst/digits.csv").query("status == 'diverged'").sort_values("attack")
    return [*table["rule"].unique(), *table["strength"].unique()]


def overhead(data: str) -> list[float]:
    """The least and largest seconds of worst in a round over the rules, and as multiples of a round without attack."""
    means = runs(f"worst/{data}.csv").groupby(["attack", "rule"])[["attack_seconds", "round_seconds"]].mean()
    seconds = means.loc["worst", "attack_seconds"]
    times = seconds / means.loc["none", "round_seconds"]
    return [float(value) for values in (seconds, times) for value in (values.min(), values.max())]


def worst_table(data: str, seeds: Sequence[str]) -> list[str]:
    """The rows of a table that `worst_adversary.py table` prints."""
    sys.path.insert(0, str(ROOT / "scripts" / "generators"))
    try:
        from worst_adversary import table
    finally:
        del sys.path[0]
    with redirect_stdout(StringIO()) as printed:
        table(RESULTS / "worst" / f"{data}.csv", [*seeds])
    return [" ".join(printed.getvalue().split())]


@cache
def fedbuff() -> pd.DataFrame:
    """The runs of FedBuff and of synchronous rounds, by protocol, rule, attack and seed."""
    table = runs("fedbuff/runs.csv").query("`protocol.attackers` == 'like_honest'")
    protocol = table["protocol.buffer"].map(lambda buffer: "sync" if pd.isna(buffer) else "fedbuff")
    protocol += " " + table["rounds"].astype(str)
    return table.assign(protocol=protocol).set_index(["protocol", "aggregator", "attack", "seed"]).sort_index()


def last(protocol: str, rule: str, attack: str) -> float:
    """The mean over seeds of the last accuracy, in percent."""
    return 100 * float(fedbuff().loc[(protocol, rule, attack), "last_accuracy"].mean())


def sooner() -> list[int]:
    """In how many comparisons FedBuff is above synchronous rounds after as long, by paired intervals; the seeds.

    The plain average under IPM, which diverges, is left out.
    """
    from robustfl_bench.runs.statistics import paired

    cells = [(rule, attack) for rule in ("average", "coomed", "mkrum") for attack in ("none", "label_flip", "ipm")]
    cells.remove(("average", "ipm"))
    table = fedbuff()["last_accuracy"]
    between = [paired(*(dict(table[(name, *cell)]) for name in ("fedbuff 500", "sync 25"))) for cell in cells]
    return [
        sum(one is not None and one.low > 0 for one in between),
        len(cells),
        table.index.get_level_values(3).nunique(),
    ]


def milder_if_fresh() -> list[int]:
    """In how many comparisons of means attackers with fresh updates do less harm to a robust rule, of how many."""
    table = runs("fedbuff/runs.csv").query("`protocol.buffer` == 12 and aggregator != 'average' and attack != 'none'")
    means = table.groupby(["aggregator", "attack", "protocol.attackers"])["last_accuracy"].mean().unstack()
    return [int((means["fresh"] > means["like_honest"]).sum()), len(means)]


def gains(rule: str, *attacks: str) -> list[float]:
    """How many points FedBuff is above synchronous rounds after 500 steps, with the ends of the paired intervals."""
    from robustfl_bench.runs.statistics import paired

    found = []
    for attack in attacks:
        protocols = [fedbuff().loc[(f"{name} 500", rule, attack), "last_accuracy"] for name in ("fedbuff", "sync")]
        between = paired(*(dict(100 * accuracy) for accuracy in protocols))
        assert between is not None
        found += [between.mean, between.low, between.high]
    return found


def unmixed() -> pd.DataFrame:
    """The kappa and lambda of the rules without pre-aggregation."""
    return runs("resilience/normal.csv").query("pre_aggregation == 'none'")


def exact(bound: str, found: str) -> list[str]:
    """The rules without pre-aggregation whose search reaches the proven bound for every f."""
    table = unmixed()
    reached = (table[bound] - table[found]).abs() <= 1e-3 * table[bound]
    return sorted(rule for rule, all_of_them in reached.groupby(table["aggregator"]).all().items() if all_of_them)


def second_least() -> list[str]:
    """The rules without pre-aggregation of which one has the second least kappa on any updates, for some f."""
    ranks = unmixed().groupby("f")["kappa_any"].rank(method="min")
    return [", ".join(sorted(set(unmixed()["aggregator"][ranks == 2]))).upper()]


@cache
def fedscs() -> pd.DataFrame:
    """The mean accuracy of FedSCS and of what it was compared with, in percent, by rule, partition and attack."""
    keys = ["aggregator", "partition", "attack"]
    table = runs("judge/fedscs/accuracy.csv")
    counted = table["test_accuracy"].fillna(0).clip(lower=0.1)
    return 100 * table.assign(counted=counted).groupby(keys)[["test_accuracy", "counted"]].mean()


def over(rule: str, *cells: tuple[str, str]) -> list[float]:
    """By how many points FedSCS is above a rule, less than guessing counted as guessing."""
    counted = fedscs()["counted"]
    return [float(counted[("fed_scs", *cell)] - counted[(rule, *cell)]) for cell in cells]


# --- BRIFCA -----------------------------------------------------------------------------------------------------------

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


def farther(first: pd.Series, second: pd.Series) -> list[float]:
    """By how much the first distances are larger than the second over shared seeds, with the ends of the interval."""
    from robustfl_bench.runs.statistics import paired

    between = paired(dict(first), dict(second))
    assert between is not None
    return [between.mean, between.low, between.high]


def restarts_gain(*methods: str) -> list[float]:
    """By how much Three-Stage with 200 restarts of k-means is nearer than methods at d = 500 with 5 clusters."""
    nearer = distances("Three-Stage", 500, 5, restarts=200)
    return [farther(distances(method, 500, 5), nearer)[0] for method in methods]


def minutes_of_trials() -> list[float]:
    """The median, least and largest minutes of a trial of all cells as published."""
    minutes = brifca().query("rounds == 299").groupby("seed")["seconds"].sum() / 60
    return [float(value) for value in (minutes.median(), minutes.min(), minutes.max())]


# --- the facts --------------------------------------------------------------------------------------------------------

_TABLE_III = "raga/runs.csv"
OTHERS = ("median", "mca", "byrd_saga")
FACTS = (
    Fact("README.md", "| --- | ---: | ---: | ---: | ---: | {} Rules:", demo),
    Fact(
        "results/README.md",
        "Of the five papers' {} published numbers that need runs ({} more follow from formulas), {} are measured, {} "
        "of them with one seed: {} are inside, {} within two points.",
        reproduced,
        slow=True,
    ),
    Fact(
        "README.md",
        "of the {} numbers in their tables that need runs, {} are measured so far, {} of them with one seed, and {} "
        "agree",
        lambda: [reproduced()[0], *reproduced()[2:5]],
        slow=True,
    ),
    Fact(
        "results/raga/README.md",
        "RAGA without attack: {:.2f} (published 95.23); under noise of variance 90 at 10 to 40%: {:.2f}, {:.2f}, "
        "{:.2f}, {:.2f} (95.10, 95.06, 95.01, 94.98); under LIE: {:.2f}, {:.2f}, {:.2f}, {:.2f}",
        lambda: percent(
            _TABLE_III,
            *(
                f"aggregator == 'raga' and {_raga(0.6)} and {attack}"
                for attack in (
                    "attack == 'none'",
                    *(
                        f"attack == '{name}' and num_byzantine == {number}"
                        for name in ("gaussian", "lie")
                        for number in (5, 10, 15, 20)
                    ),
                )
            ),
        ),
    ),
    Fact(
        "results/raga/README.md",
        "It is first in {} of {} columns; under sign flipping at 40% RFA has {:.1f}.",
        lambda: [
            *raga_first(0.6),
            *percent(
                _TABLE_III, f"aggregator == 'rfa' and {_raga(0.6)} and attack == 'sign_flip' and num_byzantine == 20"
            ),
        ],
    ),
    Fact("results/raga/README.md", "RAGA is first in {} of {} columns; without attack", lambda: raga_first(0.2)),
    Fact(
        "results/raga/README.md",
        "All four runs end between {:.2f} and {:.2f}",
        lambda: extremes(
            _TABLE_III, f"aggregator == 'fedavg' and {_raga(0.6)} and attack == 'gaussian'", "final_accuracy"
        ),
    ),
    Fact(
        "results/raga/README.md",
        "with the MLP, RAGA is first everywhere, {:.1f} to {:.1f}",
        lambda: fig4_of_raga("mlp", ["raga"]),
    ),
    Fact(
        "results/raga/README.md",
        "Median, MCA and Byrd-SAGA reach {:.0f} to {:.0f}, RFA {:.0f} to {:.0f}, FedAvg {:.1f} without attackers",
        lambda: [*fig4_of_raga("mlp", OTHERS), *fig4_of_raga("mlp", ["rfa"]), fig4_of_raga("mlp", ["fedavg"])[1]],
    ),
    Fact(
        "results/raga/README.md",
        "({:.2f} to {:.2f} in their best round; RAGA {:.2f})",
        lambda: [
            *spread("raga/fig4_quick.csv", [*OTHERS, "rfa", "fedavg"], panel="mnist lenet, gaussian", x=0),
            *points("raga/fig4_quick.csv", "raga", panel="mnist lenet, gaussian", x=0),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "(FedAvg {:.1f}, Median {:.1f}, RFA {:.1f} without attack",
        lambda: percent(
            _TABLE_III,
            *(f"aggregator == '{rule}' and {_raga(0.6)} and attack == 'none'" for rule in ("fedavg", "median", "rfa")),
        ),
    ),
    Fact(
        "results/brace/README.md",
        "# Fashion-MNIST, {} runs of {:.0f} to {:.0f} minutes of one core each",
        lambda: [len(runs("brace/runs.csv")), *extremes("brace/runs.csv", "seconds > 0", "seconds", 1 / 60)],
    ),
    Fact(
        "results/brace/README.md",
        "noise costs {:.2f}, the Krum attack, the backdoor and Trim {:.2f} to {:.2f}.",
        brace_harm,
    ),
    Fact(
        "results/brace/README.md",
        "Its worst column ({:.2f}) is the best of all rules: Krum {:.2f}, RAR {:.2f}, the others {:.2f} to {:.2f}",
        brace_worst,
    ),
    Fact(
        "results/brace/README.md",
        "| in {} of {}: Min-Max, Min-Sum and adaptive; elsewhere RAR (none, label flip, Krum, "
        "backdoor), RLR (Gaussian) or Krum (Trim) by {:.3f} to {:.2f} |",
        brace_first,
    ),
    Fact(
        "results/brace/README.md",
        "with 20% Krum has {:.2f}, signSGD {:.2f}, RLR {:.2f}, BRACE {:.2f}, RAR and the median {:.2f} and {:.2f}.",
        lambda: [
            points("brace/fig3a_quick.csv", rule, x=20)[0]
            for rule in ("krum", "signsgd", "rlr", "brace", "rar", "median")
        ],
    ),
    Fact(
        "results/brace/README.md",
        "BRACE goes from {:.2f} to {:.2f}, Krum from {:.2f} to {:.2f}. RAR learns",
        lambda: [points("brace/fig3b_quick.csv", rule, x=x)[0] for rule in ("brace", "krum") for x in (0.1, 0.9)],
    ),
    Fact("results/brace/README.md", "BRACE has {:.2f} to {:.2f}.", lambda: spread("brace/fig3c_quick.csv", ["brace"])),
    Fact("results/arfl/README.md", "all three do from round {} on", weightless),
    Fact(
        "results/arfl/README.md",
        "at 0.1 M two clients are left and accuracy falls from {:.0f} to {:.0f}",
        lambda: percent(
            "arfl/ten_clients.csv",
            "`aggregator.regularization` == 1 and eval_every == 5",
            "`aggregator.regularization` == 0.1",
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/arfl/README.md",
        "{:.1f} to {:.1f} in all six columns, {:.1f} on clean data",
        lambda: [
            *extremes("arfl/writers.csv", "aggregator == 'arfl' and attack != 'none'", "final_accuracy"),
            *percent("arfl/writers.csv", "aggregator == 'arfl' and attack == 'none'", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "{:.1f} with half of the clients, against FedAvg's {:.1f}, and {:.1f} with 30%, against {:.1f}.",
        lambda: percent(
            "arfl/options.csv",
            *(
                f"attack == 'fake_loss' and aggregator == '{rule}' and num_byzantine == {number}"
                for number in (269, 161)
                for rule in ("arfl", "fedavg")
            ),
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/bench/README.md",
        "the Gram matrix takes {1:.0f} ms for {0:.0f}, boba {3:.0f} for {2:.0f}, krum {5:.0f} for "
        "{4:.0f}, b_krum {7:.0f} for {6:.0f}, fltrust {9:.0f} for {8:.0f}, zeno {11:.0f} for {10:.0f}.",
        lambda: _times(2, "Gram", "boba", "krum", "b_krum", "fltrust", "zeno"),
    ),
    Fact(
        "results/bench/README.md",
        "trmean takes {1:.0f} for {0:.0f} and coomed {3:.0f} for {2:.0f}, with one thread "
        "{5:.0f} for {4:.0f} and {7:.0f} for {6:.0f}.",
        lambda: [*_times(2, "trmean", "coomed"), *_times(1, "trmean", "coomed")],
    ),
    Fact(
        "results/bench/README.md",
        "from one matrix: {:.1f} ms at n = 25, f = 3, d = 10,000",
        lambda: list(
            runs("bench/rules.csv").query("rule == 'smea' and n == 25 and d == 10_000 and threads == 1")["ms"]
        ),
    ),
    Fact(
        "results/brace/README.md",
        "RAR ends at {:.2f} (batches of 8, 100 rounds, rate 0.2",
        lambda: [
            1
            - float(
                runs("brace/options.csv").query("attack == 'gaussian' and aggregator == 'rar'")["final_accuracy"].item()
            )
        ],
    ),
    Fact(
        "results/boba/README.md",
        "Average {:.1f} without attack, diverged under IPM, BOBA {:.1f} and {:.1f}",
        lambda: percent(
            "boba/cifar10.csv",
            *(
                f"aggregator == '{rule}' and attack == '{attack}'"
                for rule, attack in (("average", "none"), ("boba", "none"), ("boba", "ipm"))
            ),
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/byzfl/README.md",
        "{:.2f} here, 97.33 published",
        lambda: percent("byzfl/runs.csv", "aggregator == aggregator", column="final_accuracy"),
    ),
    Fact(
        "results/karimireddy/README.md",
        "{:.2f} here, 97.87 published",
        lambda: percent("karimireddy/runs.csv", "aggregator == aggregator", column="final_accuracy"),
    ),
    Fact(
        "results/bench/README.md",
        "{:.0f} runs of 200 rounds, takes {:.1f} hours of both cores",
        lambda: [
            float(runs("bench/tables.csv").query("rule == 'all'")[column].sum()) / share
            for column, share in (("runs", 1), ("hours of a core", 2))
        ],
    ),
    Fact(
        "results/worst/README.md",
        "Holds, within one point of accuracy, for {} of {} rules on digits (means over three seeds) and for {} of {} "
        "on MNIST (one seed).",
        lambda: [
            int(number)
            for counts in (stronger("digits", 3), stronger("mnist", 1))
            for number in ((counts == 0).sum(), len(counts))
        ],
    ),
    Fact(
        "results/worst/README.md",
        "against median, minmax and minsum with `unit` reach {:.1f}%, `worst` {:.1f}%. Against bulyan, `sign` at "
        "strength 0.5 reaches {:.1f}% and `drift` at 0.5 reaches {:.1f}%; `worst` has {:.1f}%.",
        lambda: [
            *under("digits", 3, "median", "minsum_unit 1", "worst"),
            *under("digits", 3, "bulyan", "sign 0.5", "drift 0.5", "worst"),
        ],
    ),
    Fact(
        "results/worst/README.md",
        "against median, minmax and minsum with `unit` reach {:.1f}%",
        lambda: under("digits", 3, "median", "minmax_unit 1"),
    ),
    Fact(
        "results/worst/README.md",
        "against median, `sign` at strength 4 reaches {:.1f}%, `worst` {:.1f}%; {} more attacks beat it by "
        "over a point",
        lambda: [
            *under("mnist", 1, "median", "sign 4", "worst"),
            NUMBERS[stronger("mnist", 1)["median"] - 1],
        ],
    ),
    Fact(
        "results/worst/README.md",
        "where all {} attacks were run, single attacks beat `worst` by over a point for {} rules: geomed ({} attacks), "
        "median ({}), fltrust ({}) and trmean ({}).",
        lambda: [
            adversaries("digits", 1).shape[1] - len(WORST),
            NUMBERS[(stronger("digits", 1) > 0).sum()],
            *(stronger("digits", 1)[rule] for rule in ("geomed", "median", "fltrust", "trmean")),
        ],
    ),
    Fact(
        "results/worst/README.md",
        "For geomed, the best of 55 has {:.1f}% and `worst` {:.1f}%.",
        lambda: [
            100 * float(adversaries("digits", 1).drop(columns=[*WORST]).loc["geomed"].min()),
            *under("digits", 1, "geomed", "worst"),
        ],
    ),
    Fact(
        "results/worst/README.md",
        "with seed 0, {} of the 55 raise the accuracy of krum by over a point, {} that of rage.",
        lambda: list(helpful("digits", 1)[["krum", "rage"]]),
    ),
    Fact(
        "results/worst/README.md",
        "A run that diverged ({}, `ipm` at {:.0f} and `noise` at {:,.0f}) counts as guessing.",
        diverged,
    ),
    Fact(
        "results/worst/README.md",
        "Seeds 1 and 2 on digits were run with the {} attacks of the list that did the most harm with seed 0.",
        lambda: [NUMBERS[number] for number in adversaries("digits", 3).drop(columns=[*WORST]).count(axis=1).unique()],
    ),
    Fact(
        "results/worst/README.md",
        "the attack takes {:.2f} to {:.2f} s of processor time per round on digits, {:.0f} to {:.0f} times a round "
        "without attack, and {:.2f} to {:.2f} s on MNIST, {:.0f} to {:.0f} times.",
        lambda: [*overhead("digits"), *overhead("mnist")],
    ),
    *(
        Fact(
            "results/worst/README.md",
            f"## {heading} {{}}",
            partial(worst_table, data, seeds),
        )
        for heading, data, seeds in (
            ("digits, three seeds", "digits", "012"),
            ("digits, seed 0, all attacks", "digits", "0"),
            ("MNIST, seed 0, all attacks", "mnist", "0"),
        )
    ),
    Fact("results/fedbuff/README.md", "({} of {} comparisons hold, {} seeds)", sooner),
    Fact("results/fedbuff/README.md", "in {} of {} comparisons of means they do less.", milder_if_fresh),
    Fact(
        "results/fedbuff/README.md",
        "Updates are {} step old on average in the last step",
        lambda: [NUMBERS[round(float(fedbuff().loc["fedbuff 500", "last.mean_staleness"].mean()))]],
    ),
    Fact(
        "results/fedbuff/README.md",
        "Multi-Krum reaches {:.1f}% without attack where synchronous rounds have {:.1f}% after as long, and {:.1f}% "
        "against {:.1f}% under IPM.",
        lambda: [
            last(protocol, "mkrum", attack) for attack in ("none", "ipm") for protocol in ("fedbuff 500", "sync 25")
        ],
    ),
    Fact(
        "results/fedbuff/README.md",
        "under IPM, synchronous with all {} seeds, FedBuff with {}. After",
        lambda: [
            NUMBERS[(fedbuff().loc[(protocol, "average", "ipm"), "state"] == "diverged").sum()]
            for protocol in ("sync 500", "fedbuff 500")
        ],
    ),
    Fact(
        "results/fedbuff/README.md",
        "| average | {:+.1f} [{:.1f}, {:.1f}] | diverged | {:+.1f} [{:.1f}, {:.1f}] |",
        lambda: gains("average", "none", "label_flip"),
    ),
    *(
        Fact(
            "results/fedbuff/README.md",
            f"| {rule} |{' {:+.1f} [{:.1f}, {:.1f}] |' * 3}",
            partial(gains, rule, "none", "ipm", "label_flip"),
        )
        for rule in ("coomed", "mkrum")
    ),
    Fact(
        "results/fedbuff/README.md",
        "a step of FedBuff takes {:.2f} units, a synchronous round {:.0f}. That is why 25 rounds ({:.0f} units) are "
        "compared with 500 steps ({:.0f}).",
        lambda: [
            float(fedbuff().loc[(protocol, "mkrum", "none"), "last.simulated_time"].mean()) / steps
            for protocol, steps in (("fedbuff 500", 500), ("sync 25", 25), ("sync 25", 1), ("fedbuff 500", 1))
        ],
    ),
    Fact("results/fedbuff/README.md", "| `runs.csv` | the {} runs |", lambda: [len(runs("fedbuff/runs.csv"))]),
    Fact(
        "results/judge/README.md",
        "by {:+.1f} points on `iid` and {:+.1f} on `mild_dirichlet`. It loses to FedAvg on `mild_dirichlet` under "
        "`minmax` ({:.1f}), `lie` ({:.1f}) and `mimic` ({:.1f}).",
        lambda: over(
            "average",
            *((partition, "sign_flip") for partition in ("iid", "mild_dirichlet")),
            *(("mild_dirichlet", attack) for attack in ("minmax", "lie", "mimic")),
        ),
    ),
    Fact(
        "results/judge/README.md",
        "`ipm` ruins it, to {:.1f}% on `iid`: {:.1f} points below the median",
        lambda: [
            float(fedscs()["test_accuracy"]["fed_scs", "iid", "ipm"]),
            -over("coomed", ("iid", "ipm"))[0],
        ],
    ),
    Fact(
        "results/resilience/README.md",
        "With {} clients and f of {}, {} and {}, the search reaches the bound, so that kappa is known exactly, for {} "
        "rules: the trimmed mean",
        lambda: [
            *runs("resilience/normal.csv")["n"].unique(),
            *runs("resilience/normal.csv")["f"].unique(),
            NUMBERS[len(exact("proven", "kappa_any"))],
        ],
    ),
    Fact(
        "results/resilience/README.md",
        "For {} it reaches the bound of lambda, 2f / (n - f).",
        lambda: [", ".join(exact("lambda_proven", "lambda_any")).upper()],
    ),
    Fact(
        "results/resilience/README.md",
        "After the trimmed mean, the least kappa on any updates is found for {}.",
        second_least,
    ),
    Fact(
        "results/brifca/README.md",
        "with 10 clusters IFCA is worse ({:.2f} against {:.2f}), with 5 the two are equal ({:.2f} and {:.2f}).",
        lambda: [published(method, 100, clusters) for clusters in (10, 5) for method in ("IFCA", "Three-Stage")],
    ),
    Fact(
        "results/brifca/README.md",
        "with 200 restarts instead of 10, the distance with 5 clusters falls from {:.2f} to {:.2f}.",
        lambda: [float(distances("Three-Stage", 500, 5, restarts=restarts).mean()) for restarts in (10, 200)],
    ),
    Fact(
        "results/brifca/README.md",
        "in {} of {} steps as published and in {} of {} in the fair variant",
        lambda: [
            *more_clusters(published),
            *more_clusters(lambda *cell: float(distances(*cell).mean())),
        ],
    ),
    Fact(
        "results/brifca/README.md",
        "the distance at d = 20 falls from 0.2 to between {:.2f} and {:.2f}.",
        lambda: [
            bound(
                [float(distances(method, 20, 5, init="warm").mean()) for method in ("median", "trimmed mean", "IFCA")]
            )
            for bound in (min, max)
        ],
    ),
    Fact(
        "results/brifca/README.md",
        "Attackers cost IFCA with the average {:.2f} at d = 500 (95% interval {:.2f} to {:.2f}).",
        lambda: farther(distances("IFCA", 500, 5), distances("IFCA", 500, 5, attackers=False)),
    ),
    *(
        Fact(
            "results/brifca/README.md",
            "clearly below the median and IFCA of the fair variant, by {:.2f} each; the {:.2f} to the trimmed mean",
            partial(restarts_gain, method, "trimmed mean"),
        )
        for method in ("median", "IFCA")
    ),
    Fact(
        "results/brifca/README.md",
        "leave (1 - 0.02 / k)^299 of the way, {:.0f}% with 5 clusters and {:.0f}% with 10.",
        lambda: [100 * (1 - 0.02 / clusters) ** 299 for clusters in (5, 10)],
    ),
    Fact(
        "results/brifca/README.md",
        "the published variant has {}, the fair variant {} ({} or {} at d = 20 with 5 clusters), and each ablation {}.",
        lambda: [
            brifca().query("rounds == 299")["seed"].nunique(),
            len(distances("IFCA", 500, 5)),
            len(distances("Three-Stage", 20, 5)),
            len(distances("IFCA", 20, 5)),
            len(distances("IFCA", 500, 5, init="warm")),
        ],
    ),
    Fact(
        "results/brifca/README.md",
        "took {:.1f} minutes in the median of 50 trials, {:.1f} at least and {:.1f} at most",
        minutes_of_trials,
    ),
)


def problems(facts: Iterable[Fact] = FACTS) -> Iterator[str]:
    """What is wrong with the sentences, one line for each."""
    return filter(None, (fact.problem() for fact in facts))


if __name__ == "__main__":
    wrong = list(problems())
    print(
        "\n".join(wrong)
        if wrong
        else f"{len(FACTS)} sentences on {len({f.page for f in FACTS})} pages are as the runs say"
    )
    sys.exit(bool(wrong))
