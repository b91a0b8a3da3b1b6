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


def _removed(attack: str) -> list[str]:
    """The mean numbers of attackers and of honest clients that FLDetector has removed, in the columns of its table."""
    table = runs("successors/fldetector.csv").query("attack == @attack")
    cells = []
    for partition in ("iid", "pathological"):
        for part in (table.batch_size == 32, table.batch_size.isna()):
            here = table[part & (table.partition == partition)]
            honest = f"{here['last.honest_dropped'].mean():.1f}"
            cells.append(honest if attack == "none" else f"{5 - here['last.byzantine_accepted'].mean():.1f} / {honest}")
    return cells


def _removals() -> list[object]:
    """The counts in the first paragraph on FLDetector."""
    table = runs("successors/fldetector.csv")
    attackers, honest = 5 - table["last.byzantine_accepted"], table["last.honest_dropped"]
    unlike, like = table.attack.isin(["gauss", "ipm", "trim_attack"]), table.attack.isin(["lie", "minmax"])
    in_iid, alone = (table.attack == "lie") & (table.partition == "iid"), table.attack == "none"
    words = {0: "no", 1: "one"}
    return [
        attackers[unlike].min(), words[int(honest[unlike].sum())], int(unlike.sum()), words[int(attackers[like].max())],
        int((honest[like] > 0).sum()), int(like.sum()), honest[in_iid].min(), int((honest[alone] > 0).sum()),
        int(alone.sum()),
    ]  # fmt: skip


# --- papers -----------------------------------------------------------------------------------------------------------


@cache
def reproduced() -> tuple[int, ...]:
    """Of the five papers' numbers: how many need runs, follow from formulas, are measured, measured with one seed,
    inside, and within two points."""
    from robustfl_bench.runs import archive
    from robustfl_bench.tables.described import papers
    from robustfl_bench.tables.measured import scored

    scores = scored({name: papers()[name] for name in PAPERS}, archive.kept())
    whole = [(table, cell) for score in scores for table in score.tables.values() for cell in table.cells.values()]
    published = [(table, cell) for table, cell in whole if cell.against is not None]
    formulas = [cell for table, cell in published if "Mbit" in {column.value.unit for column in table.columns}]
    kept = [(table, cell) for table, cell in published if cell not in formulas and not table.order_only]
    measured = [(table, cell) for table, cell in kept if cell.inside is not None and not cell.stand_in]
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


_OF_CLASSES = "`partition.per` == 'class' and byzantine_share_by == 'clients'"


def mca_with_three_seeds(attack: str) -> list[float]:
    """The mean over seeds of MCA's best accuracy in Table III under an attack, in percent, with phi 0.6 and 0.2."""
    both = pd.concat([runs(_TABLE_III), runs("raga/seeds.csv")]).query(f"aggregator == 'mca' and {attack}")
    means = [both.query(_raga(phi)) for phi in (0.6, 0.2)]
    assert all(sorted(one["seed"]) == [0, 1, 2] for one in means)
    return [100 * one["best_accuracy"].mean() for one in means]


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


def gained_by_own_rates() -> float:
    """The most that a rate of a rule's own gains over 0.3 on BRACE's validation data, in points."""
    validated = runs("brace/rates.csv").pivot(index="aggregator", columns="lr", values="validation_accuracy")
    return float(100 * (validated.max(axis=1) - validated[0.3]).max())


def minmax_signs() -> list[float]:
    """The errors of RAR and the trimmed mean under Min-Max on the small network, along the deviation and against the
    mean's signs, and that of the median against them; and those of the three against the mean itself; seed 0."""
    along = runs("brace/one_bit_runs.csv").query("attack == 'minmax' and seed == 0 and validation_share.isna()")
    readings = runs("brace/readings.csv")
    tables = (along, *(readings[readings["attack.perturbation"] == name] for name in ("sign", "unit")))
    first, other, unit = (1 - table.set_index("aggregator")["final_accuracy"] for table in tables)
    pairs = [float(errors[rule]) for rule in ("rar", "trimmed_mean") for errors in (first, other)]
    return [*pairs, float(other["median"]), *(float(unit[rule]) for rule in ("rar", "trimmed_mean", "median"))]


def inside_table_2a(column: str) -> int:
    """How many test errors of BRACE's Table 2(a) are within 0.02 of the printed ones."""
    table = pd.read_csv(ROOT / "robustfl_bench/papers/brace.csv", dtype={"table": str})
    printed = table.query("table == '2a' and metric == 'test_error'").set_index(["aggregator", "attack"])["mean"]
    measured = 1 - runs("brace/runs.csv").set_index(["aggregator", "attack"])[column]
    return int(((measured - printed).abs() <= 0.02).sum())


def one_bit(rule: str) -> list[float]:
    """The mean errors of a rule in results/brace/one_bit.md, without attack, under each attack and the worst."""
    table = runs("brace/one_bit_runs.csv").query("validation_share.isna() and aggregator == @rule")
    errors = (1 - table.groupby("attack")["final_accuracy"].mean())[
        ["none", "krum_attack", "trim_attack", "minmax", "adaptive"]
    ]
    return [float(error) for error in (*errors, errors.drop("none").max())]


def kilobytes(rule: str, *ways: str) -> list[float]:
    """What a client sends in a round of BRACE's setting, in kilobytes, by way."""
    sent = runs("brace/bytes.csv").set_index(["way", "rule"])["bytes"]
    return [float(sent[way, rule]) / 1000 for way in ways]


def weightless() -> list[int]:
    """The first round of Fig. 6 on MNIST from which no bad client has any weight."""
    table = pd.read_csv(RESULTS / "arfl/fig6_mnist.csv", comment="#")
    weights = table[table["line"].str.startswith("byzantine")].groupby("x")["mean"].max()
    return [int(weights[weights > 0].index.max()) + 1]


def table_iii(
    rule: str, attack: str, phi: float = 0.6, path: str = "raga/runs.csv", more: str = "seed == 0"
) -> list[float]:
    """The best accuracies of a rule under an attack by 10, 20, 30 and 40% of the clients, in percent."""
    condition = f"aggregator == '{rule}' and attack == '{attack}' and {_raga(phi)} and {more}"
    return percent(path, *(f"{condition} and num_byzantine == {number}" for number in (5, 10, 15, 20)))


def own_flips(rule: str) -> list[float]:
    """The same under sign flipping, if each attacker turns its own upload around."""
    condition = (
        f"aggregator == '{rule}' and `attack.flip` == 'own' and {_raga(0.6)} and {_OF_CLASSES} and lr not in (0.1, 0.3)"
    )
    return percent("raga/options.csv", *(f"{condition} and num_byzantine == {number}" for number in (5, 10, 15, 20)))


def flips(rule: str) -> list[float]:
    """Measured with a running sum, and with own uploads turned around, at 10, 20, 30 and 40%."""
    pairs = zip(table_iii(rule, "sign_flip"), own_flips(rule), strict=True)
    return [value for pair in pairs for value in pair]


def lie_of(path: str, noise: str) -> list[float]:
    """The accuracy under LIE by 40%, of RAGA, Median, Byrd-SAGA, RFA and MCA, in percent."""
    chosen = f"attack == 'lie' and num_byzantine == 20 and {noise} and {_raga(0.6)} and {_OF_CLASSES}"
    return percent(
        path, *(f"aggregator == '{rule}' and {chosen}" for rule in ("raga", "median", "byrd_saga", "rfa", "mca"))
    )


def cells_of_boba(attack: str, *rules: str, column: str = "final_accuracy") -> list[float]:
    """The accuracies of rules under an attack in BOBA's Tables 1 and 2 on MNIST, in percent."""
    return percent(
        "boba/runs.csv", *(f"aggregator == '{rule}' and attack == '{attack}'" for rule in rules), column=column
    )


def ablation(condition: str) -> list[float]:
    """The least and the largest accuracy of BOBA's Table 4 at quick scale, in percent."""
    return extremes("boba/table4_quick.csv", condition, column="final_accuracy")


def ablation_apart(one: str, other: str) -> float:
    """By how many points two rules differ there at most."""
    accuracies = runs("boba/table4_quick.csv").pivot(index="attack", columns="aggregator", values="final_accuracy")
    return float(100 * (accuracies[one] - accuracies[other]).abs().max())


def at_nodes(attack: str, *rules: str) -> list[float]:
    """The mean accuracy over seeds of rules at the nodes of two cliques, in percent."""
    means = runs("gossip/digits_runs.csv").groupby(["attack", "aggregator"])["final_accuracy"].mean()
    return [100 * float(means[attack, rule]) for rule in rules]


def errors(condition: str, *, path: str = "brace/options.csv") -> float:
    """The test error of the only run of BRACE that meets a condition."""
    return 1 - float(runs(path).query(condition)["final_accuracy"].item())


def writers(rule: str, *attacks: tuple[str, int]) -> list[float]:
    """The accuracies of a rule on MNIST by writer under corruptions by a number of clients, in percent."""
    conditions = (f"aggregator == '{rule}' and attack == '{attack}' and num_byzantine == {n}" for attack, n in attacks)
    return percent("arfl/writers.csv", *conditions, column="final_accuracy")


def lost(rule: str) -> list[float]:
    """The least and largest loss of a rule by half of bad clients on MNIST by writer, and its accuracy without them."""
    clean = writers(rule, ("none", 0))[0]
    least, most = extremes("arfl/writers.csv", f"aggregator == '{rule}' and num_byzantine == 269", "final_accuracy")
    return [clean - most, clean - least, clean]


def cifar10_of_arfl(rule: str) -> list[float]:
    """The accuracy in percent, the loss, and the weight of the bad half of a rule."""
    run = runs("arfl/cifar10.csv").query("aggregator == @rule and attack != 'none'")
    return [100 * run["final_accuracy"].item(), run["test_loss"].item(), run["last.byzantine_weight"].item()]


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


def before(path: str, column: str, names: Sequence[str], by: str = "model") -> list[float]:
    """Numbers of a column of a benchmark's CSV file, by the names of its rows."""
    table = runs(f"bench/{path}.csv").set_index(by)[column]
    return [float(table[name]) for name in names]


def _ends(values: Sequence[float]) -> list[float]:
    return [min(values), max(values)]


def ag_news(rule: str, attack: str) -> list[float]:
    """The accuracies of a rule under an attack on AG-News, with the paper's clients and at quick scale, in percent."""
    cell = f"aggregator == '{rule}' and attack == '{attack}' and dataset == 'ag_news'"
    return [percent(f"boba/{name}.csv", cell, column="final_accuracy")[0] for name in ("ag_news", "quick")]


def table_2a(rule: str) -> list[float]:
    """A method's test errors in BRACE's Table 2(a), and the success of the backdoor."""
    attacks = (
        "none",
        "label_flip",
        "gaussian",
        "krum_attack",
        "trim_attack",
        "minmax",
        "minsum",
        "backdoor",
        "adaptive",
    )
    success = runs("brace/runs.csv").query("aggregator == @rule and attack == 'backdoor'")["last.attack_success_rate"]
    return [*(float(brace().loc[rule, attack]) for attack in attacks), float(success.item())]


def fig4(threshold: float, q: float) -> float:
    """The test error of BRACE in its Fig. 4 with a threshold and a non-IID degree."""
    return errors(f"`aggregator.threshold` == {threshold} and `partition.q` == {q}", path="brace/fig4.csv")


def near_in_table_iii(phi: float) -> list[int]:
    """How many cells of RAGA's Table III have a number, of how many, and how many are within two points."""
    printed = pd.read_csv(ROOT / "robustfl_bench/papers/raga.csv", dtype={"table": str})
    printed = printed[(printed["table"] == "III") & (printed["setting"] == f"phi={phi}") & (printed["model"] == "mlp")]
    printed = printed.assign(num_byzantine=(50 * printed["attack_fraction"]).round().astype(int))
    both = printed.merge(runs("raga/runs.csv").query(_raga(phi)), on=["aggregator", "attack", "num_byzantine"])
    measured = both["best_accuracy"].notna()
    return [int(measured.sum()), len(both), int(((100 * both["best_accuracy"] - both["mean"]).abs() <= 2).sum())]


def other_reading(condition: str) -> list[float]:
    """RAGA's accuracy with 40% Byzantine under another reading of an attack, in percent."""
    return percent("raga/options.csv", f"aggregator == 'raga' and num_byzantine == 20 and {_raga(0.6)} and {condition}")


def in_table_2a(attacks: Sequence[str], rules: Sequence[str] = (), without: Sequence[str] = ()) -> list[float]:
    """The least and the largest error of rules under attacks in BRACE's Table 2(a)."""
    values = brace().loc[list(rules) or slice(None)].drop(list(without))[list(attacks)].to_numpy()
    return [float(values.min()), float(values.max())]


def diverged_in(path: str, *conditions: str) -> list[str]:
    """The round in which each of the runs that meet a condition diverged, by its message."""
    messages = (str(runs(path).query(condition)["error"].item()) for condition in conditions)
    return [message.split("round ")[1].split(":")[0] for message in messages]


def faster_than() -> list[float]:
    """Of how many of BOBA's baselines BOBA is faster in Fig. 3, and how many there are."""
    multiples = runs("boba/fig3.csv").set_index("rule")["per_gram"]
    baselines = [name for name in runs("boba/runs.csv")["aggregator"].unique() if name != "boba"]
    return [int((multiples[baselines] > multiples["boba"]).sum()), len(baselines)]


def aggregates_of_fig2(panel: str, how: str, rules: Sequence[str]) -> list[float]:
    """The mean or the largest distance of rules' aggregates from the honest mean in BOBA's Fig. 2."""
    table = pd.read_csv(RESULTS / "boba/fig2.csv", comment="#").query("panel == @panel")
    far = ((table["x"] ** 2 + table["mean"] ** 2) ** 0.5).groupby(table["line"]).agg(how)
    return [float(far[rule]) for rule in rules]


@cache
def recalls() -> pd.DataFrame:
    """The recall of each class in BOBA's Table 1 on MNIST, in percent: one row for each rule."""
    table = runs("boba/runs.csv").query("attack == 'none'").set_index("aggregator")["recall"]
    return 100 * table.str.split(expand=True).astype(float)


def without_attack(rule: str) -> list[float]:
    """A rule's MRD, the most that it loses of a class's recall against Average, and its accuracy, in percent."""
    return [float((recalls().loc["average"] - recalls().loc[rule]).max()), *cells_of_boba("none", rule)]


def demo() -> list[str]:
    """The rows of the table that `make run` prints."""
    from robustfl_bench.runs import archive
    from robustfl_bench.tables.layout import render
    from robustfl_bench.tables.pivot import pivot

    table = pivot(archive.read(str(RESULTS / "demo.csv")), "aggregator", "attack", "final_accuracy")
    _, _, *rows = (line for line in render([table], "markdown").splitlines() if line.startswith("| "))
    return [" ".join(rows)]


# --- the arena --------------------------------------------------------------------------------------------------------


@cache
def _runs_of_arena() -> pd.DataFrame:
    from robustfl_bench.runs import archive

    return archive.kept(arena=True)


@cache
def _arena(track: str) -> Any:
    from robustfl_bench.arena.panels import Arena

    return Arena(_runs_of_arena(), track)


def arena_size() -> list[int]:
    """The number of rules and of attacks of arena digits."""
    swept = _arena("digits").track.swept
    return [len(swept["aggregator"]), len(swept["attack"]) - 1]


def arena_answer() -> list[object]:
    """Of arena silos: the most rules that are tied with the first of a division, the least and the most seeds of a
    panel, the server's samples, the least and the largest score of these samples alone, the attacks, and the fewest
    rules of a panel. Of arena digits: the rules, the attacks and the seeds."""
    from robustfl_bench.arena.page import divided
    from robustfl_bench.arena.pairs import contenders

    panels = list(_arena("silos").panels.values())
    tied = [len(top) - 1 for panel in panels for _, _, top in divided(_arena("silos"), panel)]
    per_class = _arena("silos").track.config["server_data"]["samples_per_class"]
    alone = [panel.server.score.value for panel in panels]
    counts = [len(contenders(panel)) for panel in panels]
    seeds = [panel.seeds for panel in panels]
    return [max(tied), _word(min(seeds)), _word(max(seeds)), round(per_class / CHANCE), min(alone), max(alone),
            panels[0].attacks, min(counts), *arena_size(),
            max(panel.seeds for panel in _arena("digits").panels.values())
    ]  # fmt: skip


def hours_of_version_2() -> list[float]:
    """The hours of one core that the kept runs of the arena's version 2 took: rules as they come, tuned, in other
    tracks, from nudged models, and against attackers who plan; then those of all."""
    plans = "arena/silos/planned.csv.gz"
    kinds = ("arena/silos/*", "arena/silos_tuned/*", "arena/tracks/*", "arena/rounding.csv.gz", "planned/[!c]*.csv*")
    files = [[path.relative_to(RESULTS).as_posix() for path in sorted(RESULTS.glob(kind))] for kind in kinds]
    files = [[path for path in of if path != plans] for of in files[:-1]] + [[plans, *files[-1]]]
    hours = [sum(float(runs(path)["seconds"].sum()) for path in of) / 3600 for of in files]
    return [*hours, sum(hours)]


def _of_rules(path: str) -> Any:
    return runs(path).query("dataset == 'digits'").groupby("aggregator")["seconds"]


def row_runs() -> list[int]:
    """The runs of the arena that choose a rule's rate, and the most others of a rule."""
    return [int(_of_rules(f"arena/{name}.csv.gz").size().max()) for name in ("rates", "runs")]


def row_minutes() -> list[float]:
    """The minutes of these runs, of the median rule."""
    return [float(_of_rules(f"arena/{name}.csv.gz").sum().median() / 60) for name in ("rates", "runs")]


def places_of_the_mean(attack: str, partitions: Sequence[str]) -> list[int]:
    """The best and the worst place of the mean among the rules of arena digits under an attack, by partition and number
    of attackers, and the number of rules; without those that cannot work with so many attackers."""
    arena, places, rules = _arena("digits"), [], set[str]()
    for panel in arena.panels.values():
        if panel.partition not in partitions:
            continue
        made = [run for run in arena.runs_of(panel) if run.attack == attack and run.rule != "server"]
        means = pd.Series([run.accuracy for run in made], index=[run.rule for run in made]).groupby(level=0).mean()
        places.append(1 + int((means > means["average"]).sum()))
        rules |= set(means.index)
    return [min(places), max(places), len(rules)]


BESIDE_THE_MEAN = ("faba", "lfighter", "trmean", "average")


def by_labels(setting: str, rule: str, attack: str, rounds: int = 500, file: str = "runs.csv") -> float:
    """The mean accuracy [%] of a rule in a file of results/mean_labels after so many rounds."""
    table = runs(f"mean_labels/{file}").query("rounds == @rounds and aggregator == @rule and attack == @attack")
    partition = {"iid": "iid", "mild": "dirichlet", "by_class": "pathological"}[setting]
    return 100 * float(table.loc[table["partition"] == partition, "final_accuracy"].mean())


# --- attack=worst, FedBuff and resilience -----------------------------------------------------------------------------

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _word(number: int) -> str:
    """A number in a sentence: up to ten as a word."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


WORST = ("none", "worst", "worst_ahead_3")
CHANCE = 0.1  # of ten classes


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


@cache
def objectives() -> pd.DataFrame:
    """The accuracy [%] under worst and under worst_classes, by partition and rule."""
    table = runs("worst/classes.csv")
    table = table.assign(accuracy=100 * table["final_accuracy"].fillna(CHANCE))
    return table.pivot(index=["partition", "aggregator"], columns="attack", values="accuracy")


def by_classes() -> "pd.Series[float]":
    """How much more harm worst_classes does than worst, in points, with accuracies below chance as chance."""
    floored = objectives().clip(100 * CHANCE)
    return floored["worst"] - floored["worst_classes"]


def by_classes_table() -> str:
    """The rows of the table of worst_classes in results/worst."""
    more = by_classes()
    return " ".join(
        f"| {partition} | {rule} | {row.worst:.1f} | {row.worst_classes:.1f} | {more[partition, rule]:+.1f} |"
        for (partition, rule), row in zip(objectives().index, objectives().itertuples(index=False), strict=True)
    )


def worst_table(data: str, seeds: Sequence[str]) -> list[str]:
    """The rows of a table that `worst_adversary.py table` prints."""
    sys.path.insert(0, str(ROOT / "scripts" / "generators"))
    try:
        from worst_adversary import table  # type: ignore[import-not-found]
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
    return sorted(str(rule) for rule, all_of_them in reached.groupby(table["aggregator"]).all().items() if all_of_them)


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


_BESIDE_ARENA = {"whole": ("planned/runs.csv", "digits"), "images": ("planned/images.csv", "fashion_mnist")}


@cache
def planned(kind: str) -> pd.DataFrame:
    """The accuracy [%] under attack=planned, the one that the attackers foresaw, that under the most harmful single
    attack, and the cost of planning in clean trainings, in every case.

    ``kind`` is ``whole`` or ``images`` for runs that stand beside those of the arena's version 1; else the file in
    planned/ that holds both, whose runs are judged by their last ten evaluations.
    """
    key, column = ["partition", "num_byzantine", "aggregator"], "last_accuracy"
    if kind in _BESIDE_ARENA:
        file, dataset = _BESIDE_ARENA[kind]
        arena = runs("arena/runs.csv.gz").query("aggregator != 'server'")
        both, column = [runs(file), arena.query(f"dataset == '{dataset}'")], "final_accuracy"
        both[1] = both[1].query("num_clients == 25 and rounds == 60 and seed == 0")
    else:
        both = [runs(f"planned/{kind}.csv.gz").query(f"attack {sign} 'planned'") for sign in ("==", "!=")]
    own, others = (table.copy().assign(accuracy=100 * table[column].fillna(CHANCE)) for table in both)
    singles = others.query("attack != 'none' and state != 'infeasible' and num_byzantine == num_byzantine_declared")
    singles = singles.replace({"aggregator": {"trimmed_mean": "trmean"}}).sort_values("accuracy", kind="stable")
    best = singles.drop_duplicates(key).set_index(key)
    own["foreseen"] = 100 * (1 - own["last.attack_harm"])
    own = own.merge(runs("planned/cost.csv"), on="run_id", how="left")
    found = own.set_index(key)[["accuracy", "foreseen", "trainings"]]
    found = found.join(best[["attack", "accuracy"]].add_prefix("single_"))
    more = found["single_accuracy"].clip(100 * CHANCE) - found["accuracy"].clip(100 * CHANCE)
    return found.assign(more=more).sort_index()


def as_harmful(kind: str) -> list[float]:
    """In how many cases the plan is at least as harmful within a point, of how many, the share in percent, and by how
    much on average."""
    more = planned(kind)["more"]
    return [int((more >= -1).sum()), len(more), 100 * float((more >= -1).mean()), float(more.mean())]


def as_harmful_of_all() -> list[float]:
    """In how many cases of all kinds the plan is at least as harmful within a point, and of how many."""
    counts = [as_harmful(kind)[:2] for kind in ("whole", "batches", "images")]
    return [sum(column) for column in zip(*counts, strict=True)]


def foresight(kind: str) -> list[float]:
    """The mean and the largest difference between the accuracy that attackers foresaw and the real one, in points."""
    apart = (planned(kind)["foreseen"] - planned(kind)["accuracy"]).abs()
    return [float(apart.mean()), float(apart.max())]


def cost_of_planning() -> list[float]:
    """The cost of planning in clean trainings: its median, the largest for four rules, in how many cases of how many it
    is more than 60, and the largest."""
    cases = pd.concat([planned(kind) for kind in ("whole", "batches", "images")])["trainings"]
    cheap = cases[cases.index.get_level_values("aggregator").isin(["trmean", "krum", "fltrust", "norm_bound"])]
    return [float(cases.median()), float(cheap.max()), int((cases > 60).sum()), len(cases), float(cases.max())]


def missed(condition: str) -> float:
    """The accuracy [%] under a single attack that was run again where planning does less harm."""
    return percent("planned/misses.csv", condition, column="final_accuracy")[0]


def planned_table(kind: str) -> str:
    """The rows of a table of results/planned."""
    rows = planned(kind).reset_index().itertuples(index=False)
    return " ".join(
        f"| {row.partition} | {row.num_byzantine} | {row.aggregator} | {row.foreseen:.1f} | {row.accuracy:.1f} "
        f"| {row.single_attack} | {row.single_accuracy:.1f} | {row.more:+.1f} | {row.trainings:.0f} |"
        for row in rows
    )


SUMS = ("average", "norm_bound", "signsgd", "brace", "fed_nga")
"""Rules for which a sum over the clients is enough."""


@cache
def private(data: str) -> pd.DataFrame:
    """The accuracies with noise at the clients, in percent, by noise, rule and attack, a column for each seed.

    Attacks that search for the largest loss have ``_loss`` behind their name.
    """
    table = runs(f"privacy/{data}.csv")
    table = pd.concat([table, runs("privacy/sums.csv")]) if data == "digits" else table
    mixed = table["pre_aggregation"].where(table["pre_aggregation"] != "none", "")
    searched = table["attack.objective"].eq("loss").map({True: "_loss", False: ""})
    return table.assign(
        rule=(mixed + "_" + table["aggregator"]).str.strip("_"),
        attack=table["attack"] + searched,
        accuracy=100 * table["final_accuracy"].fillna(0),
    ).pivot(index=["local_update.inner.noise", "rule", "attack"], columns="seed", values="accuracy")


def private_means(data: str, *cells: tuple[float, str, str]) -> list[float]:
    """The mean accuracies of cells, each a noise, a rule and an attack, in percent."""
    return [float(private(data).loc[cell].mean()) for cell in cells]


def above(data: str, noise: float, attack: str, rule: str, other: str) -> list[float]:
    """How many points a rule is above another, with the ends of the paired interval."""
    return _interval(*(private(data).loc[(noise, name, attack)] for name in (rule, other)))


def more_harm(data: str, rule: str, attack: str, noise: float) -> list[float]:
    """How many points more an attack costs a rule with noise than without, with the ends of the paired interval."""
    table = private(data)
    return _interval(*(table.loc[(size, rule, "none")] - table.loc[(size, rule, attack)] for size in (noise, 0)))


def _interval(first: "pd.Series[float]", second: "pd.Series[float]") -> list[float]:
    from robustfl_bench.runs.statistics import paired

    between = paired(dict(first), dict(second))
    assert between is not None
    return [between.mean, between.low, between.high]


def epsilons(data: str) -> dict[float, float]:
    """The epsilon of the runs with each noise."""
    table = runs(f"privacy/{data}.csv").dropna(subset="last.epsilon")
    by_noise = table.groupby("local_update.inner.noise")["last.epsilon"]
    assert (by_noise.nunique() == 1).all()
    return {float(noise): float(number) for noise, number in by_noise.first().items()}


def private_table(
    data: str,
    rules: Sequence[str] = ("average", "trmean", "nnm_trmean", "smea"),
    noises: Sequence[float] = (0, 1, 2),
    search: str = "",
) -> str:
    """The table of accuracies: a row for each noise and rule, a column for each attack."""
    table, known = private(data).mean(axis=1).unstack("attack"), epsilons(data)
    words = {noise: f"{epsilon:.{1 if epsilon > 1 else 2}f}" for noise, epsilon in known.items()}
    attacks = ("none", f"opt_alie{search}", f"opt_ipm{search}")
    return " ".join(
        f"| {noise:g} | {words.get(noise, 'infinite')} | {rule} | "
        + " | ".join(f"{float(table.loc[(noise, rule), attack]):.1f}" for attack in attacks)
        + " |"
        for noise in noises
        for rule in rules
    )


@cache
def attacked() -> pd.DataFrame:
    """The accuracies of rules by what arrives at the server, rule and attack, in percent, a column for each seed."""
    table = runs("fedbuff/attacked_runs.csv")
    late = table["protocol.attackers"].fillna("all")
    return table.assign(
        arrives=table["availability"].where(table["availability"] != "none", late),
        accuracy=100 * table["last_accuracy"].fillna(0),
    ).pivot(index=["arrives", "aggregator", "attack"], columns="seed", values="accuracy")


def more_lost(arrives: str, rule: str, attack: str) -> list[float]:
    """How many points a rule loses by what does not arrive, with the ends of the paired interval."""
    return _interval(*(attacked().loc[(name, rule, attack)] for name in ("all", arrives)))


def late_under_attack() -> list[int]:
    """In how many of how many cells of robust rules under attack FedBuff's mean is below that of synchronous rounds."""
    cells = [(rule, attack) for rule in ("coomed", "mkrum", "geomed") for attack in ("ipm", "lie")]
    between = [more_lost("like_honest", *cell) for cell in cells]
    assert all(low <= 0 <= high for _, low, high in between)
    return [sum(mean > 0 for mean, _, _ in between), len(between)]


def roc_table() -> str:
    """The areas under the ROC curve: a row for each rule and attack, a column for each way to arrive."""
    table = runs("fedbuff/roc_auc.csv").set_index(["aggregator,availability,protocol.attackers", "attack"])["mean"]
    arrives = ("none", "unreliable", "none like_honest", "none fresh")
    return " ".join(
        f"| {rule} | {attack} | " + " | ".join(f"{table[(f'{rule} {way}', attack)]:.2f}" for way in arrives) + " |"
        for rule in ("mkrum", "geomed")
        for attack in ("ipm", "lie")
    )


FACTS = (
    *(
        Fact(
            "results/planned/README.md",
            f"- **{title}.** At least as harmful within a point in {{}} of {{}} cases ({{:.0f}}%); the difference is "
            "{:+.1f} points on average. The simulated accuracy differs from the real one by {:.1f} points on average, "
            "by {:.1f} at most.",
            partial(lambda kind: [*as_harmful(kind), *foresight(kind)], kind),
        )
        for title, kind in (
            ("Whole local sets", "whole"),
            ("Mini-batches of 32", "batches"),
            ("Images, mini-batches of 32", "images"),
        )
    ),
    *(
        Fact(
            "results/planned/README.md",
            f"| --- | ---: | --- | ---: | ---: | --- | ---: | ---: | ---: | {{}} {end}",
            partial(lambda kind: [planned_table(kind)], kind),
        )
        for kind, end in (("whole", "## Mini-batches"), ("batches", "## Images"), ("images", "## The"))
    ),
    Fact(
        "results/planned/README.md",
        "Planning costs {:.0f} trainings without attack in the median case. It costs at most {:.0f} for `trmean`, "
        "`krum`, `fltrust` and `norm_bound`. The aim of 60 is missed in {} of {} cases, at worst by `geomed` with "
        "{:.0f}.",
        cost_of_planning,
    ),
    Fact(
        "results/planned/README.md",
        "On one machine, `worst` leaves `boba` {:.1f}% (mild_dirichlet, 5 attackers) and {:.1f}% (pathological, 10)",
        lambda: [missed(f"aggregator == 'boba' and num_byzantine == {number}") for number in (5, 10)],
    ),
    Fact(
        "results/planned/README.md",
        "On one machine `opt_alie` leaves {:.1f}% and `tailored` {:.1f}% (`misses.csv`). Planning, with {:.1f}%, "
        "misses by {:.1f} points there.",
        lambda: [
            *(
                single := [
                    missed(f"partition == 'iid' and attack == '{attack}'") for attack in ("opt_alie", "tailored")
                ]
            ),
            planned("images")["accuracy"]["iid", 5, "fltrust"],
            planned("images")["accuracy"]["iid", 5, "fltrust"] - min(single),
        ],
    ),
    Fact(
        "results/planned/README.md",
        "alone leaves {:.1f}%. They foresaw {:.1f}% and reach {:.1f}%.",
        lambda: [
            missed("partition == 'mild_dirichlet' and attack == 'tailored'"),
            *planned("images").loc[("mild_dirichlet", 5, "fltrust"), ["foreseen", "accuracy"]],
        ],
    ),
    Fact("results/planned/README.md", "In {} of {} cases they are at least as harmful", as_harmful_of_all),
    Fact("README.md", "| --- | ---: | ---: | ---: | ---: | {} ## Your own rule", demo),
    Fact("README.md", "runs {} rules under {} attacks in one protocol", arena_size, slow=True),
    Fact(
        "results/arena/README.md",
        "So far at least {} rules have runs in a panel",
        lambda: arena_answer()[7:8],
        slow=True,
    ),
    Fact(
        "results/arena/README.md",
        "The kept runs of version 2 took {:.1f} hours of one core, of 25 that are meant for them: {:.1f} for the rules "
        "as they come, {:.1f} for those tuned, {:.1f} in other tracks, {:.1f} beside nudged models, and {:.1f} against",
        lambda: [hours_of_version_2()[-1], *hours_of_version_2()[:-1]],
    ),
    Fact(
        "README.md",
        '"And {} more": {} to {} seeds cannot tell these rules from the first. A server with the {} samples that such '
        "rules read scores {:.0f} to {:.0f} alone. [Version 2 of the arena](results/arena/silos.md) has {} attacks "
        "and attackers who plan, so far at least {} rules a case; [version 1](results/arena/README.md) {} rules, {} "
        "attacks, {} seeds.",
        arena_answer,
        slow=True,
    ),
    Fact(
        "README.md",
        "is {} runs that choose its learning rate and at most {} cells: {:.1f} and {:.1f} minutes of a core for the "
        "median rule.",
        lambda: [*row_runs(), *row_minutes()],
    ),
    Fact(
        "results/README.md",
        "Of the five papers' {} published numbers that need runs ({} more follow from formulas), {} are measured, {} "
        "of them with one seed: {} are inside, {} within two points.",
        reproduced,
        slow=True,
    ),
    Fact(
        "README.md",
        "Of the {} numbers in the five papers' tables that need runs, {} are measured so far, {} of them with one "
        "seed, and {} agree",
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
        "With phi 0.6 and 0.2 it has {:.1f} and {:.1f} then, without attack {:.1f} and {:.1f}.",
        lambda: [
            *mca_with_three_seeds("attack == 'sign_flip' and num_byzantine == 20"),
            *mca_with_three_seeds("attack == 'none'"),
        ],
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
    Fact(
        "results/raga/README.md",
        "| RAGA | {:.1f}; {:.1f}; 94.8 | {:.1f}; {:.1f}; 95.0 | {:.1f}; {:.1f}; 94.2 | {:.1f}; {:.1f}; 95.0 |",
        lambda: flips("raga"),
    ),
    Fact(
        "results/raga/README.md",
        "| Median | {:.1f}; {:.1f}; 91.2 | {:.1f}; {:.1f}; 91.3 | {:.1f}; {:.1f}; 90.9 | {:.1f}; {:.1f}; 91.6 |",
        lambda: flips("median"),
    ),
    Fact(
        "results/raga/README.md",
        "| Byrd-SAGA | {:.1f}; {:.1f}; 90.5 | {:.1f}; {:.1f}; 90.6 | {:.1f}; {:.1f}; 89.9 | {:.1f}; {:.1f}; 90.6 |",
        lambda: flips("byrd_saga"),
    ),
    Fact(
        "results/raga/README.md",
        "| RFA | {:.1f}; {:.1f}; 92.1 | {:.1f}; {:.1f}; 91.9 | {:.1f}; {:.1f}; 90.8 | {:.1f}; {:.1f}; 92.3 |",
        lambda: flips("rfa"),
    ),
    Fact(
        "results/raga/README.md",
        "leaves RAGA, Median, Byrd-SAGA, RFA and MCA at {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} at 40%, noise for "
        "each at {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} (published",
        lambda: [
            *lie_of("raga/options.csv", "`attack.noise`.isna()"),
            *lie_of("raga/runs.csv", "`attack.noise` == 'each'"),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "| FedAvg, noise at 10 to 40% | {:.1f} to {:.1f} | 9.8",
        lambda: _ends(table_iii("fedavg", "gaussian")),
    ),
    Fact(
        "results/raga/README.md",
        "| FedAvg, noise at 10 to 40% | {:.1f} to {:.1f} | 12.3",
        lambda: _ends(table_iii("fedavg", "gaussian", 0.2)),
    ),
    Fact(
        "results/raga/README.md",
        "| MCA, sign flipping at 20, 30, 40% | {:.1f}, {:.1f}, {:.1f} | 87.9",
        lambda: table_iii("mca", "sign_flip")[1:],
    ),
    Fact(
        "results/raga/README.md",
        "| MCA, sign flipping at 20, 30, 40% | {:.1f}, {:.1f}, {:.1f} | 81.0",
        lambda: table_iii("mca", "sign_flip", 0.2)[1:],
    ),
    Fact(
        "results/raga/README.md",
        "| RFA, sign flipping at 40% | {:.1f} | 92.3",
        lambda: table_iii("rfa", "sign_flip")[3:],
    ),
    Fact(
        "results/raga/README.md",
        "| RFA, sign flipping at 40% | {:.1f} | 92.0",
        lambda: table_iii("rfa", "sign_flip", 0.2)[3:],
    ),
    Fact(
        "results/raga/README.md",
        "| RFA, noise at 40% | {:.1f} | 91.7",
        lambda: table_iii("rfa", "gaussian", 0.2)[3:],
    ),
    Fact(
        "results/raga/README.md",
        "| FedAvg, LIE at 30, 40% | {:.1f}, {:.1f} | 88.0",
        lambda: table_iii("fedavg", "lie")[2:],
    ),
    Fact(
        "results/raga/README.md",
        "| FedAvg, LIE at 30, 40% | {:.1f}, {:.1f} | 87.5",
        lambda: table_iii("fedavg", "lie", 0.2)[2:],
    ),
    Fact(
        "results/raga/README.md",
        "without attack it has {:.2f} (published 94.53), under noise {:.2f} to {:.2f} (94.16 to 94.69), under LIE "
        "{:.2f} to {:.2f} (94.16",
        lambda: [
            *percent("raga/runs.csv", f"aggregator == 'raga' and {_raga(0.2)} and attack == 'none'"),
            *(end for attack in ("gaussian", "lie") for end in _ends(table_iii("raga", attack, 0.2))),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "| RAGA | {:.2f} (97.89) | {:.2f} (97.79) | {:.2f} (97.76) |",
        lambda: percent(
            "raga/lenet.csv", *(f"aggregator == 'raga' and attack == '{a}'" for a in ("none", "gaussian", "sign_flip"))
        ),
    ),
    Fact(
        "results/raga/README.md",
        "| FedAvg | {0:.2f} (95.54) | diverged in round {2} (11.35) | {1:.2f} (9.80) |",
        lambda: [
            *percent("raga/lenet.csv", *(f"aggregator == 'fedavg' and attack == '{a}'" for a in ("none", "sign_flip"))),
            *diverged_in("raga/lenet.csv", "aggregator == 'fedavg' and attack == 'gaussian'"),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "| Median | | {:.2f} (published 91.32) | {:.2f} | {:.2f} |",
        lambda: [
            table_iii("median", "sign_flip")[1],
            *percent("raga/rates.csv", *(f"aggregator == 'median' and lr == {lr}" for lr in (0.1, 0.3))),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "| RFA | | {:.2f} (published 91.86) | {:.2f} | {:.2f} |",
        lambda: [
            table_iii("rfa", "sign_flip")[1],
            *percent("raga/rates.csv", *(f"aggregator == 'rfa' and lr == {lr}" for lr in (0.1, 0.3))),
        ],
    ),
    Fact(
        "results/boba/README.md",
        "BOBA: {:.1f}, {:.1f}, {:.1f}, {:.1f}, {:.1f}, {:.1f} (published",
        lambda: [cells_of_boba(a, "boba")[0] for a in ("gauss", "ipm", "lie", "mimic", "minmax", "minsum")],
    ),
    Fact(
        "results/boba/README.md",
        "as torch.median, has {:.1f}, at best {:.1f} (",
        lambda: [
            percent("boba/options.csv", "aggregator == 'coomed'", column=c)[0]
            for c in ("final_accuracy", "best_accuracy")
        ],
    ),
    Fact(
        "results/boba/README.md",
        "| Average {:.1f}, AvgRej {:.1f} |",
        lambda: percent(
            "boba/options.csv",
            *(f"aggregator == '{r}' and attack == 'gauss'" for r in ("average", "avgrej")),
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/boba/README.md",
        "CooMed {:.1f} (89.6), ByGARS {:.1f} (85.0)",
        lambda: cells_of_boba("lie", "coomed", "bygars"),
    ),
    Fact(
        "results/boba/README.md",
        "Average {:.1f}, {:.1f} (90.0, 90.8); GeoMed {:.1f}, {:.1f} (91.2",
        lambda: [cells_of_boba(a, r)[0] for r in ("average", "geomed") for a in ("minmax", "minsum")],
    ),
    Fact(
        "results/boba/README.md",
        "| RAGE, Gauss | {:.1f} |",
        lambda: cells_of_boba("gauss", "rage"),
    ),
    Fact(
        "results/boba/README.md",
        "without its first stage BOBA has {:.1f} to {:.1f} under the attacks, with it {:.1f} to {:.1f}; without the "
        "second it is at {:.1f} under Gauss and IPM; the exhaustive search is within {:.1f} points of it in "
        "every column.",
        lambda: [
            *(
                end
                for rule in ("boba_wo_stage1", "boba")
                for end in ablation(f"aggregator == '{rule}' and attack != 'none'")
            ),
            ablation("aggregator == 'boba_wo_stage2' and attack == ['gauss', 'ipm']")[0],
            ablation_apart("boba_es", "boba"),
        ],
    ),
    Fact(
        "results/boba/README.md",
        "With a quarter of the clients in a round BOBA falls to {:.1f} under Gauss and {:.1f} under IPM (published: "
        "88.1 and 87.7), and with three quarters to {:.1f} under Gauss.",
        lambda: percent(
            "boba/ag_news_quick.csv",
            *(
                f"aggregator == 'boba' and participation == {share} and attack == '{attack}'"
                for share, attack in ((0.25, "gauss"), (0.25, "ipm"), (0.75, "gauss"))
            ),
            column="final_accuracy",
        ),
    ),
    Fact(
        "results/gossip/README.md",
        "five seeds do not decide: {:.1f}% and {:.1f}% on two cliques.",
        lambda: at_nodes("spectral_heterogeneity", "cs_plus", "monna"),
    ),
    Fact(
        "results/gossip/README.md",
        "ClippedGossip with the adaptive radius falls to {:.1f}%.",
        lambda: at_nodes("spectral_heterogeneity", "clipped_gossip"),
    ),
    Fact(
        "results/gossip/README.md",
        "Dissensus takes plain gossip to {:.1f}%; every robust rule but Krum keeps {:.1f}% or more**, NNA the most "
        "({:.1f}%).",
        lambda: at_nodes("dissensus", "average", "trmean", "monna"),
    ),
    *(
        Fact(
            "results/gossip/README.md",
            f"| `{rule}` | {{:.2f}} |",
            partial(
                lambda rule: percent(
                    "gossip/ring_runs.csv",
                    f"aggregator == '{rule}' and attack == 'lie' and rounds == 90",
                    column="final_accuracy",
                ),
                rule,
            ),
        )
        for rule in ("clipped_gossip", "trmean", "rfa")
    ),
    *(
        Fact(
            "results/gossip/README.md",
            sentence,
            partial(
                lambda rule, beta, attacks: percent(
                    "gossip/monna_runs.csv",
                    *(
                        f"model == 'byzfl_cnn' and aggregator == '{rule}' and `local_update.beta` == {beta} "
                        f"and attack == '{attack}'"
                        for attack in attacks
                    ),
                    column="final_accuracy",
                ),
                *run,
            ),
        )
        for sentence, *run in (
            (
                "| mean, momentum 0.99 (without attackers: D-SGD) | {:.2f} | {:.2f} | {:.2f} |",
                "average",
                0.99,
                ("none", "lie", "label_flip"),
            ),
            (
                "| MoNNA: nearest neighbours, momentum 0.99 | not run | {:.2f} | {:.2f} |",
                "monna",
                0.99,
                ("lie", "label_flip"),
            ),
            ("| NNA: nearest neighbours, no momentum | not run | {:.2f} | not run |", "monna", 0, ("lie",)),
        )
    ),
    *(
        Fact(
            "results/gossip/README.md",
            f"| {words} | {{:.2f}} | {{:.2f}} | {{:.2f}} | {{:.2f}} |",
            partial(
                lambda kind: (
                    100 * runs("gossip/ring_rounds.csv").query("local_update == @kind").test_accuracy
                ).tolist(),
                kind,
            ),
        )
        for kind, words in (
            ("momentum", "here, one run"),
            ("momentum_from_zero", "here with a momentum that begins at 0, one run"),
        )
    ),
    Fact(
        "results/boba/README.md",
        "at quick scale one, two and three passes without attackers have {:.1f}, {:.1f} and {:.1f}",
        lambda: (
            100
            * runs("boba/outliers.csv")
            .query("aggregator == 'rage' and attack == 'none'")
            .groupby("num_byzantine_declared")
            .final_accuracy.mean()
        ).tolist(),
    ),
    Fact(
        "results/boba/README.md",
        "| GeoMed, Mimic | {:.1f} |",
        lambda: cells_of_boba("mimic", "geomed"),
    ),
    Fact(
        "results/boba/README.md",
        "At quick scale seven clients lead to {:.1f} to {:.1f}",
        lambda: extremes("boba/outliers.csv", "aggregator == 'geomed' and seed == 0", column="final_accuracy"),
    ),
    Fact(
        "results/boba/README.md",
        "| RAGE, LIE | {:.1f} |",
        lambda: cells_of_boba("lie", "rage"),
    ),
    Fact(
        "results/boba/README.md",
        "| TrMean, LIE | {:.1f} | 88.9 (0.6) | it does not settle: its best round has {:.1f}. With seed 1 it ends at "
        "{:.1f}",
        lambda: [
            *cells_of_boba("lie", "trmean"),
            *cells_of_boba("lie", "trmean", column="best_accuracy"),
            *percent("boba/options.csv", "aggregator == 'trmean'", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/boba/README.md",
        "| CooMed, Gauss | {:.1f} |",
        lambda: cells_of_boba("gauss", "coomed"),
    ),
    Fact(
        "results/boba/README.md",
        "| B-Krum, Min-Max | {:.1f} |",
        lambda: cells_of_boba("minmax", "b_krum"),
    ),
    Fact(
        "results/boba/README.md",
        "| SelfRej, IPM | {:.1f} | 71.1 (2.5) | 2.04 published sd, one seed; Zeno, which is the same but for a small "
        "penalty, is at {:.1f}",
        lambda: cells_of_boba("ipm", "selfrej", "zeno"),
    ),
    Fact(
        "results/boba/README.md",
        "| ByGARS, Mimic | {:.1f} | 77.1 (1.3) | as without attack ({:.1f}",
        lambda: [*cells_of_boba("mimic", "bygars"), *cells_of_boba("none", "bygars")],
    ),
    Fact(
        "results/boba/README.md",
        "`aggregator.deviation=absolute` ({:.1f} without attack, {:.1f} under IPM;",
        lambda: [cells_of_boba(a, "rage")[0] for a in ("none", "ipm")],
    ),
    Fact(
        "results/boba/README.md",
        "`aggregator.normalize=cosine` ({:.1f}, {:.1f};",
        lambda: [cells_of_boba(a, "bygars")[0] for a in ("none", "ipm")],
    ),
    Fact(
        "results/boba/README.md",
        "it does not settle: its best round has {:.1f}. Which",
        lambda: cells_of_boba("none", "coomed", column="best_accuracy"),
    ),
    Fact(
        "results/boba/README.md",
        "agree ({:.1f} and {:.1f} without attack; published 92.3, 85.3). BOBA and Multi-Krum leave out all clients "
        "of a class and have {:.1f} and {:.1f} (92.3, 90.0). With `partition.alpha=0.5` they have {:.1f} and {:.1f}",
        lambda: [
            *percent(
                "boba/table7_mnist.csv",
                *(
                    f"aggregator == '{r}' and attack == 'none' and seed == 0"
                    for r in ("average", "fltrust", "boba", "mkrum")
                ),
                column="final_accuracy",
            ),
            *percent(
                "boba/options.csv",
                *(f"aggregator == '{r}' and attack == 'none' and `partition.alpha` == 0.5" for r in ("boba", "mkrum")),
                column="final_accuracy",
            ),
        ],
    ),
    Fact(
        "results/boba/README.md",
        "| Average | none | 88.3 | {:.1f} | {:.1f} |",
        lambda: ag_news("average", "none"),
    ),
    Fact(
        "results/boba/README.md",
        "| Multi-Krum | none | 88.0 | {:.1f} | {:.1f} |",
        lambda: ag_news("mkrum", "none"),
    ),
    Fact(
        "results/boba/README.md",
        "| BOBA | none | 88.3 | {:.1f} | {:.1f} |",
        lambda: ag_news("boba", "none"),
    ),
    Fact(
        "results/boba/README.md",
        "| Average | IPM | 25.0 | {:.1f} | {:.1f} |",
        lambda: ag_news("average", "ipm"),
    ),
    Fact(
        "results/boba/README.md",
        "| Multi-Krum | IPM | 80.7 | {:.1f} | {:.1f} |",
        lambda: ag_news("mkrum", "ipm"),
    ),
    Fact(
        "results/boba/README.md",
        "| BOBA | IPM | 87.7 | {:.1f} | {:.1f} |",
        lambda: ag_news("boba", "ipm"),
    ),
    Fact(
        "results/brace/README.md",
        "| RAR | {:.2f} (0.19) | {:.2f} (0.19) | {:.2f} (0.27) | {:.2f} (0.19) | {:.2f} (0.33) | {:.2f} (0.54) | "
        "{:.2f} (0.48) | {:.2f} (0.20) | {:.2f} (0.61) | {:.2f} (0.94) |",
        lambda: table_2a("rar"),
    ),
    Fact(
        "results/brace/README.md",
        "| Krum | {:.2f} (0.21) | {:.2f} (0.24) | {:.2f} (0.22) | {:.2f} (0.90) | {:.2f} (0.22) | {:.2f} (0.22) | "
        "{:.2f} (0.21) | {:.2f} (0.22) | {:.2f} (0.24) | {:.2f} (0.03) |",
        lambda: table_2a("krum"),
    ),
    Fact(
        "results/brace/README.md",
        "| Median | {:.2f} (0.23) | {:.2f} (0.25) | {:.2f} (0.23) | {:.2f} (0.42) | {:.2f} (0.34) | {:.2f} (0.25) | "
        "{:.2f} (0.28) | {:.2f} (0.28) | {:.2f} (0.26) | {:.2f} (0.06) |",
        lambda: table_2a("median"),
    ),
    Fact(
        "results/brace/README.md",
        "| Trimmed mean | {:.2f} (0.23) | {:.2f} (0.29) | {:.2f} (0.25) | {:.2f} (0.27) | {:.2f} (0.35) | {:.2f} "
        "(0.25) | {:.2f} (0.26) | {:.2f} (0.24) | {:.2f} (0.24) | {:.2f} (0.10) |",
        lambda: table_2a("trimmed_mean"),
    ),
    Fact(
        "results/brace/README.md",
        "| signSGD | {:.2f} (0.19) | {:.2f} (0.24) | {:.2f} (0.23) | {:.2f} (0.24) | {:.2f} (0.31) | {:.2f} (0.27) | "
        "{:.2f} (0.22) | {:.2f} (0.20) | {:.2f} (0.24) | {:.2f} (0.03) |",
        lambda: table_2a("signsgd"),
    ),
    Fact(
        "results/brace/README.md",
        "| RLR | {:.2f} (0.19) | {:.2f} (0.24) | {:.2f} (0.22) | {:.2f} (0.26) | {:.2f} (0.36) | {:.2f} (0.24) | "
        "{:.2f} (0.27) | {:.2f} (0.20) | {:.2f} (0.20) | {:.2f} (0.03) |",
        lambda: table_2a("rlr"),
    ),
    Fact(
        "results/brace/README.md",
        "| BRACE | {:.2f} (0.19) | {:.2f} (0.19) | {:.2f} (0.19) | {:.2f} (0.19) | {:.2f} (0.19) | {:.2f} (0.19) | "
        "{:.2f} (0.19) | {:.2f} (0.19) | {:.2f} (0.19) | {:.2f} (0.03) |",
        lambda: table_2a("brace"),
    ),
    *(
        Fact(
            "results/brace/README.md",
            f"| {title} | {{:.1f}} | {{:.1f}} | {{:.1f}} | {{:.1f}} | {{:.1f}} |",
            lambda rule=rule: percent(  # type: ignore[misc]
                "brace/rates.csv",
                *(f"aggregator == '{rule}' and lr == {rate}" for rate in (0.05, 0.1, 0.2, 0.3, 0.5)),
                column="validation_accuracy",
            ),
        )
        for rule, title in (("krum", "Krum"), ("median", "Median"), ("trimmed_mean", "Trimmed mean"))
    ),
    Fact(
        "results/brace/README.md",
        "no rate of five gains more than {:.2f} points over the rate taken",
        lambda: [gained_by_own_rates()],
    ),
    *(
        Fact(
            "results/brace/README.md",
            f"| {title} |{' {:.2f} |' * 6} {{:.1f}} | {'{:,.1f}' if ways[1:-1] else '-'} | {{:,.1f}} |",
            lambda rule=rule, ways=ways: [*one_bit(rule), *kilobytes(rule, *ways)],  # type: ignore[misc]
        )
        for rule, title, ways in (
            ("rar", "RAR", ("star", "ring", "all-reduce")),
            ("krum", "Krum", ("star", "all-reduce")),
            ("median", "Median", ("star", "all-reduce")),
            ("trimmed_mean", "Trimmed mean", ("star", "all-reduce")),
            ("geomed", "Geometric median", ("star", "all-reduce")),
            ("signsgd", "signSGD", ("star", "ring", "all-reduce")),
            ("rlr", "RLR", ("star", "ring", "all-reduce")),
            ("brace", "BRACE", ("star", "ring", "all-reduce")),
        )
    ),
    Fact(
        "results/brace/README.md",
        "sends {:.3f} of a plain ring's bytes for rules that treat columns alone and {:.2f} for Krum and the geometric "
        "median",
        lambda: [kilobytes(rule, "all-reduce")[0] / kilobytes("rar", "ring")[0] for rule in ("median", "krum")],
    ),
    Fact(
        "results/brace/README.md",
        "BRACE's ring sends {:.2f} of a plain ring's bytes as printed, and {:.2f} with",
        lambda: [sent / kilobytes("rar", "ring")[0] for sent in kilobytes("brace", "ring", "ring, needed")],
    ),
    Fact(
        "results/brace/README.md",
        "to a server a client sends {:.1f} kB, 1/{:.0f} of BRACE's ring",
        lambda: [kilobytes("brace", "star")[0], kilobytes("brace", "ring")[0] / kilobytes("brace", "star")[0]],
    ),
    Fact(
        "results/brace/README.md",
        "with the best of the ten evaluated rounds {} of the {} errors are inside, with the last {}.",
        lambda: [inside_table_2a("best_accuracy"), len(runs("brace/runs.csv")), inside_table_2a("final_accuracy")],
    ),
    Fact(
        "results/brace/README.md",
        "with the best round of ten it still errs {:.2f} without attack for 0.21",
        lambda: [1 - runs("brace/runs.csv").query("aggregator == 'krum' and attack == 'none'")["best_accuracy"].item()],
    ),
    Fact(
        "results/brace/README.md",
        "with a rate of 0.2 RAR errs {:.2f}, with 0.001 BRACE {:.2f}",
        lambda: [
            errors(f"aggregator == '{rule}' and attack == 'trim_attack' and lr == {rate}")
            for rule, rate in (("rar", 0.2), ("brace", 0.001))
        ],
    ),
    Fact(
        "results/brace/README.md",
        "brings RAR from {:.2f} to {:.2f} and the trimmed mean from {:.2f} to {:.2f} under Min-Max, towards the "
        "printed 0.54 and 0.25, but not the median ({:.2f}); with `unit` the three err {:.2f}, {:.2f} and {:.2f}",
        minmax_signs,
    ),
    Fact(
        "results/brace/README.md",
        "| RAR | none | `lr=0.2` | {:.3f} |",
        lambda: [errors("aggregator == 'rar' and attack == 'none' and lr == 0.2")],
    ),
    Fact(
        "results/brace/README.md",
        "| RAR | none | `lr=0.3`, taken | {:.3f} |",
        lambda: [errors("aggregator == 'rar' and attack == 'none' and lr == 0.3")],
    ),
    Fact(
        "results/brace/README.md",
        "| BRACE | none | `lr=0.001` | {:.3f} |",
        lambda: [errors("aggregator == 'brace' and attack == 'none' and lr == 0.001")],
    ),
    Fact(
        "results/brace/README.md",
        "| BRACE | none | `lr=0.002`, taken | {:.3f} |",
        lambda: [errors("aggregator == 'brace' and attack == 'none' and lr == 0.002")],
    ),
    Fact(
        "results/brace/README.md",
        "| BRACE | none | `lr=0.003` | {:.3f} |",
        lambda: [errors("aggregator == 'brace' and attack == 'none' and lr == 0.003")],
    ),
    Fact(
        "results/brace/README.md",
        "| RAR | Min-Max | `lr=0.2 attack.perturbation=inverse_std` | {:.3f} |",
        lambda: [errors("aggregator == 'rar' and attack == 'minmax' and `attack.perturbation` == 'inverse_std'")],
    ),
    Fact(
        "results/brace/README.md",
        "| RAR | Min-Max | `lr=0.2` (plus) | {:.3f} |",
        lambda: [errors("aggregator == 'rar' and attack == 'minmax' and `attack.perturbation` == 'std'")],
    ),
    Fact(
        "results/brace/README.md",
        "| Median | Min-Max | `lr=0.2 attack.perturbation=inverse_std` | {:.3f} |",
        lambda: [errors("aggregator == 'median' and attack == 'minmax' and `attack.perturbation` == 'inverse_std'")],
    ),
    Fact(
        "results/brace/README.md",
        "| Median | Min-Max | `lr=0.2` (plus) | {:.3f} |",
        lambda: [errors("aggregator == 'median' and attack == 'minmax' and `attack.perturbation` == 'std'")],
    ),
    Fact(
        "results/brace/README.md",
        "| RAR | Trim | `lr=0.2` | {:.3f} |",
        lambda: [errors("aggregator == 'rar' and attack == 'trim_attack' and lr == 0.2")],
    ),
    Fact(
        "results/brace/README.md",
        "| signSGD | Trim | `lr=0.001` | {:.3f} |",
        lambda: [errors("aggregator == 'signsgd' and attack == 'trim_attack' and lr == 0.001")],
    ),
    Fact(
        "results/brace/README.md",
        "| BRACE | Trim | `lr=0.001` | {:.3f} |",
        lambda: [errors("aggregator == 'brace' and attack == 'trim_attack' and lr == 0.001")],
    ),
    Fact(
        "results/brace/README.md",
        "`attack.factor=1,1.3,1.6,2` have {:.2f}, {:.2f}, {:.2f}, {:.2f} (",
        lambda: [errors(f"attack == 'adaptive' and `attack.factor` == {x}") for x in (1, 1.3, 1.6, 2)],
    ),
    Fact(
        "results/brace/README.md",
        "0 is best at q = 0.1 and 0.5, {:.2f} and {:.2f}; 5, the printed value, has {:.2f} and {:.2f}.",
        lambda: [fig4(t, q) for t in (0, 5) for q in (0.1, 0.5)],
    ),
    Fact(
        "results/brace/README.md",
        "Seen: {:.2f} and {:.2f} with 40.",
        lambda: [fig4(40, q) for q in (0.1, 0.5)],
    ),
    Fact(
        "results/brace/README.md",
        "from 5 to 20 errors grow by {:.2f} at q = 0.1 and by {:.2f} at q = 0.5",
        lambda: [fig4(20, q) - fig4(5, q) for q in (0.1, 0.5)],
    ),
    Fact(
        "results/brace/README.md",
        "learns little at any degree ({:.2f} to {:.2f}).",
        lambda: spread("brace/fig3b_quick.csv", ["rar"]),
    ),
    Fact(
        "results/brace/README.md",
        "With 40% Krum alone still learns ({:.2f}; the others {:.2f} to {:.2f}), and with 45% it has {:.2f}.",
        lambda: [
            *points("brace/fig3a_quick.csv", "krum", x=40),
            *spread("brace/fig3a_quick.csv", ["rar", "median", "signsgd", "rlr", "brace", "trimmed_mean"], x=40),
            *points("brace/fig3a_quick.csv", "krum", x=45),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "{:.1f} with half of the clients flipped to one label, {:.1f} shuffled, {:.1f} noisy",
        lambda: writers("fedavg", ("label_flip_one", 269), ("label_shuffle", 269), ("noisy", 269)),
    ),
    Fact(
        "results/arfl/README.md",
        "RFA loses {:.1f} to {:.1f} points against its own clean {:.1f}; Multi-Krum at most {:.1f} against its own "
        "clean {:.1f}",
        lambda: [*lost("rfa"), *lost("mkrum")[1:]],
    ),
    Fact(
        "results/arfl/README.md",
        "| {:.1f} shuffled, {:.1f} flipped |",
        lambda: writers("cfl", ("label_shuffle", 269), ("label_flip_one", 269)),
    ),
    Fact(
        "results/arfl/README.md",
        "with 30% shuffled CFL has {:.1f} against {:.1f} |",
        lambda: [writers(r, ("label_shuffle", 161))[0] for r in ("cfl", "arfl")],
    ),
    Fact(
        "results/arfl/README.md",
        "| with 30% shuffled, three seeds | CFL has {:.1f}, ARFL {:.1f} |",
        lambda: [
            100 * float(rows.query(f"aggregator == '{rule}' and attack == 'label_shuffle'").final_accuracy.mean())
            for rows in [pd.concat(map(runs, ("arfl/writers.csv", "arfl/seeds.csv"))).query("num_byzantine == 161")]
            for rule in ("cfl", "arfl")
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "the authors' code: {:.1f} | `received`, Algorithm 1 | {:.1f}: none |",
        lambda: [
            *writers("arfl", ("label_shuffle", 269)),
            *percent("arfl/options.csv", "`aggregator.loss_at` == 'received'", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "| 1: {:.1f} | 0.1; 10 | {:.1f}; {:.1f} |",
        lambda: [
            *writers("arfl", ("label_shuffle", 269)),
            *percent("arfl/options.csv", "`aggregator.regularization` == 0.1", column="final_accuracy"),
            *percent("arfl/options.csv", "`aggregator.regularization` == 10", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "the authors' code: {:.1f} | squared, others alone (Blanchard et al.) | {:.1f}: none |",
        lambda: [
            *writers("mkrum", ("label_shuffle", 269)),
            *percent("arfl/options.csv", "aggregator == 'mkrum'", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "the authors' code: {:.1f} | `heavier`; `smaller` | {:.1f}; {:.1f},",
        lambda: [
            *writers("cfl", ("label_shuffle", 269)),
            *percent("arfl/options.csv", "`aggregator.group` == 'heavier'", column="final_accuracy"),
            *percent("arfl/options.csv", "`aggregator.group` == 'smaller'", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "the authors' code: {:.1f} | `image` | {:.1f} |",
        lambda: [
            *writers("fedavg", ("noisy", 269)),
            *percent("arfl/options.csv", "`attack.rescale` == 'image'", column="final_accuracy"),
        ],
    ),
    Fact(
        "results/arfl/README.md",
        "FedAvg on clean data has {:.1f} there",
        lambda: percent("arfl/cifar10.csv", "attack == 'none'", column="final_accuracy"),
    ),
    Fact(
        "results/arfl/README.md",
        "| ARFL | **{:.1f}** | **69.7** | {:.2f} | {:.2f} |",
        lambda: cifar10_of_arfl("arfl"),
    ),
    Fact(
        "results/arfl/README.md",
        "| CFL | {:.1f} | 50.3 | {:.2f} | {:.2f} |",
        lambda: cifar10_of_arfl("cfl"),
    ),
    Fact(
        "results/arfl/README.md",
        "| FedAvg | {:.1f} | 47.0 | {:.2f} | {:.2f} |",
        lambda: cifar10_of_arfl("fedavg"),
    ),
    Fact(
        "results/arfl/README.md",
        "| RFA | {:.1f} | 40.3 | {:.2f} | {:.2f} |",
        lambda: cifar10_of_arfl("rfa"),
    ),
    Fact(
        "results/arfl/README.md",
        "| Multi-Krum | {:.1f} | 52.3 (14.9) | {:.2f} | {:.2f} |",
        lambda: cifar10_of_arfl("mkrum"),
    ),
    Fact(
        "results/bench/README.md",
        "| average | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("average"),
    ),
    Fact(
        "results/bench/README.md",
        "| coomed | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("coomed"),
    ),
    Fact(
        "results/bench/README.md",
        "| trmean | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("trmean"),
    ),
    Fact(
        "results/bench/README.md",
        "| meamed | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("meamed"),
    ),
    Fact(
        "results/bench/README.md",
        "| krum | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("krum"),
    ),
    Fact(
        "results/bench/README.md",
        "| mkrum | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("mkrum"),
    ),
    Fact(
        "results/bench/README.md",
        "| b_krum | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("b_krum"),
    ),
    Fact(
        "results/bench/README.md",
        "| geomed | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("geomed"),
    ),
    Fact(
        "results/bench/README.md",
        "| rfa | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("rfa"),
    ),
    Fact(
        "results/bench/README.md",
        "| cge | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("cge"),
    ),
    Fact(
        "results/bench/README.md",
        "| centered_clipping | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("centered_clipping"),
    ),
    Fact(
        "results/bench/README.md",
        "| caf | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        lambda: peers("caf"),
    ),
    Fact(
        "results/bench/README.md",
        "full batches take {:.1f} to {:.1f} times their bare matrix products",
        lambda: of_rounds(rounds_by("x products", samples=600)),
    ),
    Fact(
        "results/bench/README.md",
        "makes the gradients of full batches {:.1f} times as fast and of batches of 64 {:.1f} times; before, {:.1f} "
        "and {:.1f} times",
        second_thread,
    ),
    Fact(
        "results/bench/README.md",
        "makes a round on 2 threads {:.1f} to {:.1f} times as long",
        lambda: of_rounds(rounds_by("ms", threads=2, neighbours=2) / rounds_by("ms", threads=2, neighbours=0)),
    ),
    Fact(
        "results/bench/README.md",
        "client gradients are {:.1f} to {:.0f} times as fast as a plain autograd loop, but for a CNN with dropout "
        "({:.1f}) and a model of means ({:.1f})",
        lambda: [
            *extremes("bench/models.csv", "model not in ('dropout_cnn', 'mean')", "x loop", 1),
            *before("models", "x loop", ["dropout_cnn", "mean"]),
        ],
    ),
    Fact(
        "results/bench/README.md",
        "of {0} cells {1} are within 0.5 points of float32 with the same seed ({4:.2f} in the median), {2} differ by "
        "more than 2 points, by {5:.1f} at most, and {3} leave two deviations of three seeds. In {7} more the model "
        "diverges in both.",
        rounded_cells,
    ),
    Fact(
        "results/bench/README.md",
        "float32 took {6:.2f} times as long here",
        rounded_cells,
    ),
    Fact(
        "results/bench/README.md",
        "{:.1f} for LeNet, {:.1f} for the GRU, {:.1f} for a single layer",
        lambda: before("models_before", "x loop", ["lenet", "gru", "linear"]),
    ),
    Fact(
        "results/bench/README.md",
        "the GRU's gradients are {:.1f} times as fast, those of the CIFAR-10 CNN {:.2f}, of a single layer {:.1f}, "
        "of LeNet {:.2f}, of the MLP {:.2f} (",
        lambda: before("models_before", "x before", ["gru", "cnn", "linear", "lenet", "mlp"]),
    ),
    Fact(
        "results/bench/README.md",
        "with 214 clients is {:.1f} times as fast, one of CIFAR-10 with 115 clients {:.2f}",
        lambda: [float(runs(f"bench/rounds_{data}.csv")["before / now"].item()) for data in ("ag_news", "cifar10")],
    ),
    Fact(
        "results/bench/README.md",
        "take {:.1f} times less time with 600 samples per client, {:.1f} with 64 and {:.1f} with 16",
        lambda: [before(f"bfloat16_{samples}", "x in bfloat16", ["mlp"])[0] for samples in (600, 64, 16)],
    ),
    Fact(
        "results/bench/README.md",
        "a round takes {:.1f} times its matrix of 1.5 GiB, {:.1f} to {:.1f} times one of 0.4 GiB",
        lambda: [
            extremes("bench/scaling_memory.csv", "n == 400", "x matrix", 1)[1],
            *extremes("bench/scaling_memory.csv", "n == 100 and d == 999_985", "x matrix", 1),
        ],
    ),
    Fact(
        "results/bench/README.md",
        "cost {:.1f}, {:.1f} and {:.1f} times less with 2, 8 and 32 runs of the arena's network on digits, and "
        "{:.1f}, {:.1f} and {:.1f} times less",
        lambda: [*stacked("ratio", 64, "32", 57), *stacked("ratio", 784, "32", 32)],
    ),
    Fact(
        "results/bench/README.md",
        "costs {:.1f} times less with Krum and {:.1f} times less with the trimmed mean",
        lambda: before("stack_cells", "ratio", ["krum", "trmean"], "rule"),
    ),
    Fact(
        "results/bench/README.md",
        "a round of `worst` costs {:.0f} to {:.0f} rounds without attack, and cost {:.0f} to {:.0f} when",
        lambda: [
            *extremes("bench/questions.csv", "attack == 'worst'", "at once / none", 1),
            *extremes("bench/questions.csv", "attack == 'worst'", "one by one / none", 1),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "{} of {} cells; in four the model diverged. {} are within 2 points.",
        lambda: near_in_table_iii(0.6),
    ),
    Fact(
        "results/raga/README.md",
        "{} of {} cells, in three the model diverged. {} are within 2 points.",
        lambda: near_in_table_iii(0.2),
    ),
    Fact(
        "results/raga/README.md",
        "(`attack.noise=null`) | {:.1f} | {:.1f} |",
        lambda: [
            *other_reading(f"{_OF_CLASSES} and `attack.flip` == 'own'"),
            *other_reading(f"{_OF_CLASSES} and `attack.noise`.isna() and attack == 'lie'"),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "(`byzantine_share_by=data`) | {:.1f} | {:.1f} |",
        lambda: [
            *other_reading("byzantine_share_by == 'data' and `attack.flip` == 'own'"),
            *other_reading("byzantine_share_by == 'data' and `attack.noise`.isna() and attack == 'lie'"),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "(`partition.per=client`) | {:.1f} | {:.1f} |",
        lambda: [
            *other_reading("`partition.per` == 'client' and `attack.flip` == 'own'"),
            *other_reading("`partition.per` == 'client' and `attack.noise`.isna() and attack == 'lie'"),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "(as in the table) | {:.1f} | |",
        lambda: table_iii("raga", "sign_flip")[3:],
    ),
    Fact(
        "results/raga/README.md",
        "drawn for each attacker (as in the table) | | {:.1f} |",
        lambda: table_iii("raga", "lie")[3:],
    ),
    Fact(
        "results/raga/README.md",
        "`attack.noise=shared attack.spread=parameters`) | | {:.1f} |",
        lambda: other_reading("`attack.noise` == 'shared'"),
    ),
    Fact(
        "results/raga/README.md",
        "FedAvg is explained by neither: {:.1f} and {:.1f} (85.9)",
        lambda: [
            *table_iii("fedavg", "lie", path="raga/options.csv", more="`attack.noise`.isna()")[3:],
            *table_iii("fedavg", "lie")[3:],
        ],
    ),
    Fact(
        "results/raga/README.md",
        "(`attack.flip=own`) it has {:.1f}.",
        lambda: percent("raga/options.csv", "aggregator == 'fedavg' and num_byzantine == 5 and `attack.flip` == 'own'"),
    ),
    Fact(
        "results/raga/README.md",
        "(Byrd-SAGA {:.1f}, MCA {:.1f}; published",
        lambda: percent(
            "raga/runs.csv",
            *(f"aggregator == '{rule}' and {_raga(0.6)} and attack == 'none'" for rule in ("byrd_saga", "mca")),
        ),
    ),
    Fact(
        "results/raga/README.md",
        "| Median, noise at 20%, sign flipping at 10, 20, 40% | {:.1f}; {:.1f}, {:.1f}, {:.1f} |",
        lambda: [
            table_iii("median", "gaussian", 0.2)[1],
            *(table_iii("median", "sign_flip", 0.2)[i] for i in (0, 1, 3)),
        ],
    ),
    Fact(
        "results/raga/README.md",
        "| RAGA | {:.2f} (published 95.00) | | | |",
        lambda: [table_iii("raga", "sign_flip")[1]],
    ),
    Fact(
        "results/raga/README.md",
        "nothing but RAGA learns with LeNet ({:.1f}; the others",
        lambda: [max(points("raga/fig3_quick.csv", "raga", panel="cifar10 lenet, num byzantine 8"))],
    ),
    Fact(
        "results/brace/README.md",
        "| RAR, signSGD, RLR and BRACE learn equally well without attack | {:.2f} to {:.2f} |",
        lambda: in_table_2a(["none"], ["rar", "signsgd", "rlr", "brace"]),
    ),
    Fact(
        "results/brace/README.md",
        "fatal for the rule Krum alone | {:.2f}, as printed; all others {:.2f} to {:.2f},",
        lambda: [in_table_2a(["krum_attack"], ["krum"])[0], *in_table_2a(["krum_attack"], without=["krum"])],
    ),
    Fact(
        "results/brace/README.md",
        "median and trimmed mean to Trim | {:.2f}, {:.2f} and {:.2f}; {:.2f} and {:.2f} |",
        lambda: [*table_2a("rar")[4:7], table_2a("median")[4], table_2a("trimmed_mean")[4]],
    ),
    Fact(
        "results/brace/README.md",
        "| not here: {:.2f} to {:.2f} |",
        lambda: in_table_2a(["minmax", "minsum"], ["median", "trimmed_mean"]),
    ),
    Fact(
        "results/brace/README.md",
        "succeeds against signSGD, RLR and BRACE in {:.2f} to {:.2f} of all cases",
        lambda: _ends([table_2a(rule)[-1] for rule in ("signsgd", "rlr", "brace")]),
    ),
    Fact(
        "results/boba/README.md",
        "BOBA takes {:.2f} of one Gram matrix",
        lambda: before("../boba/fig3", "per_gram", ["boba"], "rule"),
    ),
    Fact(
        "results/boba/README.md",
        "without attack: BOBA {:.3f}, GeoMed {:.3f}, CooMed {:.3f}, Krum {:.3f}, as the paper says",
        lambda: aggregates_of_fig2("no attack", "mean", ["boba", "geomed", "coomed", "krum"]),
    ),
    Fact(
        "results/boba/README.md",
        "under six attacks: CooMed {:.3f}, GeoMed {:.3f}, BOBA {:.3f}, Krum {:.3f};",
        lambda: aggregates_of_fig2("under attack", "max", ["coomed", "geomed", "boba", "krum"]),
    ),
    Fact(
        "results/boba/README.md",
        "and is faster than {} of the {} baselines; no rule",
        faster_than,
    ),
    Fact(
        "results/boba/README.md",
        "no rule takes more than {:.1f} Gram matrices",
        lambda: extremes("boba/fig3.csv", "rule != 'sort'", "per_gram", 1)[1:],
    ),
    Fact(
        "results/boba/README.md",
        "Average and AvgRej diverge in rounds {} and {} (",
        lambda: diverged_in(
            "boba/runs.csv", *(f"aggregator == '{rule}' and attack == 'gauss'" for rule in ("average", "avgrej"))
        ),
    ),
    Fact(
        "results/raga/README.md",
        "| FedAvg, sign flipping | diverged in rounds {}, {}, {}, {} |",
        lambda: diverged_in(
            "raga/runs.csv",
            *(
                f"aggregator == 'fedavg' and attack == 'sign_flip' and {_raga(0.6)} and num_byzantine == {n}"
                for n in (5, 10, 15, 20)
            ),
        ),
    ),
    Fact(
        "results/boba/README.md",
        "| CooMed, accuracy and MRD | {1:.1f}, {0:.1f} |",
        lambda: without_attack("coomed"),
    ),
    Fact(
        "results/boba/README.md",
        "| TrMean, MRD | {:.1f} | 59.4 (20.9) | within 2 sd; accuracy {:.1f} against",
        lambda: without_attack("trmean"),
    ),
    Fact(
        "results/boba/README.md",
        "| AvgRej, MRD | {0:.1f} | 18.1 (8.0) | the clients of class 8 are rejected most: recall "
        "{2:.1f}% in round 200; accuracy "
        "{1:.1f} against",
        lambda: [*without_attack("avgrej"), float(recalls().loc["avgrej", 8])],
    ),
    Fact(
        "results/boba/README.md",
        "accuracy {1:.1f} against 82.0 |",
        lambda: without_attack("server"),
    ),
    Fact(
        "results/boba/README.md",
        "| Server, MRD | {:.1f} |",
        lambda: without_attack("server"),
    ),
    Fact(
        "results/boba/README.md",
        "| ByGARS, MRD | {:.1f} |",
        lambda: without_attack("bygars"),
    ),
    Fact(
        "results/boba/README.md",
        "(recall {:.0f}%), the others are; accuracy {:.1f} against",
        lambda: [float(recalls().loc["bygars", 5]), *cells_of_boba("none", "bygars")],
    ),
    Fact(
        "results/raga/README.md",
        "{:.0f} to {:.0f} minutes of one core a cell",
        lambda: extremes("raga/lenet.csv", "seconds > 0", "seconds", 1 / 60),
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
    *(
        Fact(
            "results/successors/README.md",
            f"| `{attack}`{words} | {{:.2f}} | {{:.2f}} |",
            partial(
                percent,
                "successors/fed_nga.csv",
                *(f"attack == '{attack}' and eval_every == 10 and num_byzantine == {f}" for f in attackers),
                column="final_accuracy",
            ),
        )
        for attack, words, attackers in (
            ("none", "", (0, 0)),
            *((attack, "", (10, 20)) for attack in ("gauss", "ipm", "lie")),
            ("sign_flip", ", each its own update", (10, 20)),
        )
    ),
    *(
        Fact("results/successors/README.md", f"| {words} |" + " {} |" * 4, partial(_removed, attack))
        for attack, words in (
            ("none", "none"),
            ("gauss", "Gauss"),
            ("ipm", "IPM"),
            ("trim_attack", "trim attack"),
            ("label_flip", "label flips"),
            ("lie", "LIE"),
            ("minmax", "Min-Max"),
        )
    ),
    Fact(
        "results/successors/README.md",
        "it removes all {:.0f} attackers, and {} honest client in {} runs. Under LIE and Min-Max it removes {} "
        "attacker in any run, and in {} of {} runs it removes honest clients instead, in IID under LIE all {:.0f}. "
        "Without attack it removes honest clients in {} of {} runs.",
        _removals,
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
    Fact("results/worst/README.md", "| --- | --- | ---: | ---: | ---: | {}", lambda: [by_classes_table()]),
    Fact(
        "results/worst/README.md",
        "it does more harm by over a point in {} of {} cases and less in {}, by {:.1f} points less on average",
        lambda: [
            int((by_classes() > 1).sum()),
            len(by_classes()),
            int((by_classes() < -1).sum()),
            -float(by_classes().mean()),
        ],
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
    Fact(
        "results/mean_labels/README.md",
        "{:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% under static flipping, {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% "
        "under dynamic flipping.",
        lambda: [
            by_labels("by_class", rule, attack)
            for attack in ("label_flip", "dynamic_label_flip")
            for rule in ("average", "lfighter", "centered_clipping", "faba", "trmean")
        ],
    ),
    Fact(
        "results/mean_labels/README.md",
        "LFighter has {:.1f}%, FABA {:.1f}% and the trimmed mean {:.1f}%, the mean {:.1f}%",
        lambda: [by_labels("by_class", rule, "none") for rule in ("lfighter", "faba", "trmean", "average")],
    ),
    *(
        Fact(
            "results/mean_labels/README.md",
            sentence,
            partial(lambda setting: [by_labels(setting, rule, "label_flip") for rule in BESIDE_THE_MEAN], setting),
        )
        for setting, sentence in (
            ("iid", "and the mean have {:.1f}, {:.1f}, {:.1f} and {:.1f}% under static flipping."),
            ("mild", "In the mild Dirichlet partition they have {:.1f}, {:.1f}, {:.1f} and {:.1f}%"),
        )
    ),
    Fact(
        "results/mean_labels/README.md",
        "{:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% under static flipping, {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f}% "
        "under dynamic flipping (two hidden",
        lambda: [
            by_labels("by_class", rule, attack, file="mlp_runs.csv")
            for attack in ("label_flip", "dynamic_label_flip")
            for rule in ("average", "lfighter", "centered_clipping", "faba", "trmean")
        ],
    ),
    *(
        Fact(
            "results/mean_labels/README.md",
            f"| {words} | {{:.1f}} | {{:.1f}} | {{:.1f}} | {{:.1f}} | {{:.1f}} |",
            partial(
                lambda file: [
                    by_labels("by_class", rule, "label_flip", 2000, file)
                    for rule in ("average", "centered_clipping", "lfighter", "faba", "trmean")
                ],
                file,
            ),
        )
        for words, file in (("softmax regression", "runs.csv"), ("network", "mlp_runs.csv"))
    ),
    Fact(
        "results/mean_labels/README.md",
        "LFighter is ahead of the mean at round 400, with {:.1f} and {:.1f}%.",
        lambda: (
            pd.read_csv(RESULTS / "mean_labels/mlp.csv", comment="#")
            .query("panel == 'label flip, mlp by class' and x == 400")
            .set_index("line")["mean"][["lfighter", "average"]]
            .tolist()
        ),
    ),
    Fact(
        "results/mean_labels/README.md",
        "they have {:.1f}, {:.1f} and {:.1f}%, the mean {:.1f}% under static flipping (one seed).",
        lambda: [by_labels("iid", rule, "label_flip", file="mlp_runs.csv") for rule in BESIDE_THE_MEAN],
    ),
    *(
        Fact(
            "results/mean_labels/README.md",
            f"| {attack} | {words} | {{}} | {{}} |",
            partial(lambda attack, partitions: places_of_the_mean(attack, partitions)[:2], attack, partitions),
            slow=True,
        )
        for attack, words, partitions in (
            ("label_flip", "all five", ("iid", "mild_dirichlet", "step", "fang", "pathological")),
            ("label_shuffle", "mild Dirichlet, pathological", ("mild_dirichlet", "pathological")),
            ("label_shuffle", "step, Fang", ("step", "fang")),
            ("label_shuffle", "IID", ("iid",)),
        )
    ),
    Fact(
        "results/privacy/README.md",
        "IPM that searches (Opt-IPM) leaves the trimmed mean {:.1f}%. With noise 1, epsilon {:.1f}, the trimmed mean "
        "has {:.1f}% without attack and {:.1f}% under it: the attack costs {:.1f} points [{:.1f}, {:.1f}] more than "
        "without noise. NNM before the trimmed mean does not change that ({:.1f} points [{:.1f}, {:.1f}]).",
        lambda: [
            *private_means("digits", (0, "trmean", "opt_ipm")),
            epsilons("digits")[1],
            *private_means("digits", (1, "trmean", "none"), (1, "trmean", "opt_ipm")),
            *more_harm("digits", "trmean", "opt_ipm", 1),
            *above("digits", 1, "opt_ipm", "nnm_trmean", "trmean"),
        ],
    ),
    Fact(
        "results/privacy/README.md",
        "has {:.1f}% there, {:.1f} points [{:.1f}, {:.1f}] above the trimmed mean, and with noise 2, epsilon {:.1f}, "
        "{:.1f} points [{:.1f}, {:.1f}] above it. Without noise no difference between the three robust rules shows "
        "({:.1f} points [{:.1f}, {:.1f}] for SMEA).",
        lambda: [
            *private_means("digits", (1, "smea", "opt_ipm")),
            *above("digits", 1, "opt_ipm", "smea", "trmean"),
            epsilons("digits")[2],
            *above("digits", 2, "opt_ipm", "smea", "trmean"),
            *above("digits", 0, "opt_ipm", "smea", "trmean"),
        ],
    ),
    Fact(
        "results/privacy/README.md",
        "With noise 0.5, epsilon {:.1f}, the trimmed mean has {:.1f}% without attack and {:.1f}% under Opt-IPM, SMEA "
        "{:.1f}%, which is {:.1f} points [{:.1f}, {:.1f}] more. Without noise they have {:.1f}% and {:.1f}% under it.",
        lambda: [
            epsilons("mnist")[0.5],
            *private_means("mnist", (0.5, "trmean", "none"), (0.5, "trmean", "opt_ipm"), (0.5, "smea", "opt_ipm")),
            *above("mnist", 0.5, "opt_ipm", "smea", "trmean"),
            *private_means("mnist", (0, "trmean", "opt_ipm"), (0, "smea", "opt_ipm")),
        ],
    ),
    Fact(
        "results/privacy/README.md",
        "With noise 1 epsilon is {:.2f}: SMEA has {:.1f}% without attack and {:.1f}% under Opt-IPM, the trimmed mean "
        "{:.1f}%. NNM before the trimmed mean helps with noise 0.5 ({:.1f} points [{:.1f}, {:.1f}]) and does harm with "
        "noise 1 ({:.1f} points [{:.1f}, {:.1f}]).",
        lambda: [
            epsilons("mnist")[1],
            *private_means("mnist", (1, "smea", "none"), (1, "smea", "opt_ipm"), (1, "trmean", "opt_ipm")),
            *above("mnist", 0.5, "opt_ipm", "nnm_trmean", "trmean"),
            *above("mnist", 1, "opt_ipm", "nnm_trmean", "trmean"),
        ],
    ),
    Fact(
        "results/privacy/README.md",
        "MNIST: | noise | epsilon | rule | no attack | Opt-ALIE | Opt-IPM | "
        "| ---: | ---: | --- | ---: | ---: | ---: | {}",
        lambda: [private_table("mnist", noises=(0, 0.5, 1))],
    ),
    Fact(
        "results/privacy/README.md",
        "**Without attack robust rules cost little** on digits: {:.1f} points at most in the means.",
        lambda: [
            max(
                -above("digits", noise, "none", rule, "average")[0]
                for noise in (0, 1, 2)
                for rule in ("trmean", "nnm_trmean", "smea")
            )
        ],
    ),
    Fact(
        "results/privacy/README.md",
        "with noise 1 it costs the trimmed mean {:.1f} points [{:.1f}, {:.1f}] more than without noise.",
        lambda: more_harm("digits", "trmean", "opt_alie", 1),
    ),
    Fact(
        "results/privacy/README.md",
        "| noise | epsilon | rule | no attack | Opt-ALIE | Opt-IPM | | ---: | ---: | --- | ---: | ---: | ---: | {}",
        lambda: [private_table("digits")],
    ),
    Fact(
        "results/privacy/README.md",
        "| noise | epsilon | rule | no attack | Opt-ALIE | Opt-IPM | | ---: | ---: | --- | ---: | ---: | ---: | {} "
        "Norm bounding, signSGD",
        lambda: [private_table("digits", (*SUMS, "trmean", "smea"), (0, 1), "_loss")],
    ),
    Fact(
        "results/privacy/README.md",
        "Without noise Opt-IPM leaves Fed-NGA {:.1f}% and signSGD {:.1f}%, SMEA {:.1f}%. With noise 1 it leaves them "
        "{:.1f}% and {:.1f}%, SMEA {:.1f}%, which is {:.1f} points [{:.1f}, {:.1f}] above signSGD. The mean, norm "
        "bounding and BRACE fall under it without noise as well. Opt-ALIE with noise 1 leaves every rule but the "
        "mean at least {:.1f}%.",
        lambda: [
            *private_means("digits", *((0, rule, "opt_ipm_loss") for rule in ("fed_nga", "signsgd", "smea"))),
            *private_means("digits", *((1, rule, "opt_ipm_loss") for rule in ("fed_nga", "signsgd", "smea"))),
            *above("digits", 1, "opt_ipm_loss", "smea", "signsgd"),
            min(private_means("digits", *((1, rule, "opt_alie_loss") for rule in (*SUMS[1:], "trmean", "smea")))),
        ],
    ),
    Fact(
        "results/privacy/README.md",
        "with noise 1 it leaves Fed-NGA {:.1f}% and signSGD {:.1f}%.",
        lambda: private_means("digits", (1, "fed_nga", "opt_ipm"), (1, "signsgd", "opt_ipm")),
    ),
    Fact(
        "results/privacy/README.md",
        "with noise 1 no rate tried gives it more than {:.1f}% of the validation data.",
        lambda: [
            100
            * runs("privacy/rates.csv")
            .query("aggregator == 'rlr' and `local_update.inner.noise` == 1")["validation_accuracy"]
            .max()
        ],
    ),
    *(
        Fact(
            "results/privacy/README.md",
            f"| `{name}.csv` | the {{}} runs",
            partial(lambda name: [len(runs(f"privacy/{name}.csv"))], name),
        )
        for name in ("digits", "mnist", "sums", "rates")
    ),
    Fact(
        "results/fedbuff/README.md",
        "where honest clients drop out**: {:.1f} points [{:.1f}, {:.1f}] more.",
        lambda: more_lost("unreliable", "coomed", "ipm"),
    ),
    Fact(
        "results/fedbuff/README.md",
        "the loss is {:.1f} points [{:.1f}, {:.1f}], for Multi-Krum none shows (a gain of {:.1f} points "
        "[{:.1f}, {:.1f}]).",
        lambda: [
            *more_lost("unreliable", "geomed", "ipm"),
            *(-more_lost("unreliable", "mkrum", "ipm")[place] for place in (0, 2, 1)),
        ],
    ),
    Fact("results/fedbuff/README.md", "{} of {} means are below those of synchronous rounds", late_under_attack),
    Fact("results/fedbuff/README.md", "| --- | --- | ---: | ---: | ---: | ---: | {}", lambda: [roc_table()]),
    Fact(
        "results/fedbuff/README.md",
        "| `attacked_runs.csv` | its {} runs |",
        lambda: [len(runs("fedbuff/attacked_runs.csv"))],
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
