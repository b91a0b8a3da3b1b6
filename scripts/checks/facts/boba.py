"""The facts of results/boba/README.md."""

from functools import cache

import pandas as pd

from robustfl_bench.runner.config import compose
from robustfl_bench.train.participation import taking_part
from robustfl_bench.train.settings import SCALARS, Settings
from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import (
    agreeing,
    before,
    column,
    diverged_in,
    extremes,
    means_of,
    measured,
    measured_in,
    percent,
    runs,
)


def cells_of_boba(attack: str, *rules: str) -> list[float]:
    """The accuracies of rules under an attack in BOBA's Tables 1 and 2 on MNIST, in percent."""
    cells = (f"aggregator == '{rule}' and attack == '{attack}'" for rule in rules)
    return percent("boba/runs.csv", *cells)


def ablation(condition: str) -> list[float]:
    """The least and the largest accuracy of BOBA's Table 4 at quick scale with seed 0, in percent."""
    return extremes("boba/table4_quick.csv", f"{condition} and seed == 0")


def ablation_apart(one: str, other: str) -> float:
    """By how many points two rules differ there at most."""
    table = runs("boba/table4_quick.csv").query("seed == 0")
    accuracies = table.pivot(index="attack", columns="aggregator", values="final_accuracy")
    return float(100 * (accuracies[one] - accuracies[other]).abs().max())


def in_whole_batches() -> list[float]:
    """With a quarter of the clients of AG-News: the accuracy of BOBA without attack, the least and the largest under
    attacks if a quarter of the attackers takes part; in how many rounds more than f do if they are drawn like others,
    and BOBA's accuracy under Gauss then; without attack those of Average, Multi-Krum and FLTrust."""
    quarter = runs("boba/table8.csv").query("participation == 0.25").fillna({"participation_by": "null"})
    means = 100 * quarter.groupby(["participation_by", "aggregator", "attack"])["final_accuracy"].mean()
    attacked = means["kind", "boba"]
    if len(attacked) != 6:
        raise ValueError(f"attacks on BOBA: {list(attacked.index)}")
    clean = [means["null", rule, "none"] for rule in ("boba", "average", "mkrum", "fltrust")]
    return [clean[0], attacked.min(), attacked.max(), beyond_f(), means["null", "boba", "gauss"], *clean[1:]]


def beyond_f() -> int:
    """In how many of the 200 rounds of Table 8, with a quarter of all clients, more than f are attackers."""
    drawn = ("participation=0.25", "participation_by=null", "aggregator=boba", "attack=gauss", "seed=0")
    config = compose.resolve(["+experiment=boba/table8", *drawn]).config
    s = Settings(**{name: config[name] for name in SCALARS})
    attackers = [(taking_part(s, round) >= s.num_clients).sum() for round in range(s.rounds)]
    return sum(int(number > s.num_byzantine_declared) for number in attackers)


def faster_than(file: str, column: str, cases: str = "rule != 'sort'") -> list[int]:
    """Of how many of BOBA's baselines BOBA is faster by some cases of a file, and how many there are."""
    multiples = runs(file).query(cases).set_index("rule")[column]
    baselines = [name for name in runs("boba/runs.csv")["aggregator"].unique() if name != "boba"]
    return [int((multiples[baselines] > multiples["boba"]).sum()), len(baselines)]


def ahead_on_mnist() -> list[float]:
    """BOBA's max recall drop in Table 1 on MNIST and the least of other rules, in points, and its worst accuracy in
    Table 2 and the best of other rules', in percent."""
    drop, worst = column("boba/table1_mnist", "none mrd"), column("boba/table2_mnist", "worst")
    return [drop.pop("boba"), min(drop.values()), worst.pop("boba"), max(worst.values())]


def fits(data: str) -> list[str]:
    """The mean fits of a round without attack, and the least and largest of those under attacks."""
    lines = [line.split(", ") for line in measured_in(f"boba/fits_{data}.csv")["line"].unique()]
    attacked = [mean for attack, mean in lines if attack != "none"]
    return [dict(map(tuple, lines))["none"], min(attacked), max(attacked)]


def search(attack: str) -> list[float]:
    """The median milliseconds of the exhaustive search and of BOBA."""
    seconds = measured_in("boba/search_quick.csv").groupby("line")["mean"].median()
    return [1000 * float(seconds[f"{rule}, {attack}"]) for rule in ("BOBA-ES", "BOBA")]


@cache
def in_mnist() -> pd.DataFrame:
    """The runs of BOBA's Tables 1 and 2 on MNIST, of all seeds."""
    kept = pd.concat([runs("boba/runs.csv"), runs("boba/seeds.csv")])
    return kept.query("dataset == 'mnist' and partition == 'pathological' and rounds == 200")


def means(attack: str, *rules: str) -> list[float]:
    """The mean accuracies of rules under an attack, over all seeds, in percent."""
    of_attack = in_mnist().query("attack == @attack").groupby("aggregator")["final_accuracy"].mean()
    return [100 * float(of_attack[rule]) for rule in rules]


def recalls(rule: str) -> pd.DataFrame:
    """The recall of each class without attack, in percent, a row for each seed."""
    table = in_mnist().query("attack == 'none' and aggregator == @rule").set_index("seed")["recall"]
    return 100 * table.str.split(expand=True).astype(float)


def drops(rule: str) -> pd.Series:
    """The MRD of a rule without attack, the most that it loses of a class's recall against Average, by seed."""
    return (recalls("average") - recalls(rule)).max(axis=1)


def figure(condition: str) -> list[float]:
    """The least and the largest accuracy of runs of Figs. 4, 6, 8 and 14 at quick scale, in percent."""
    return extremes("boba/figures_quick.csv", f"scale == 'quick' and {condition}")


def mixed(rule: str) -> list[float]:
    """The least accuracies of a rule with none, a quarter and half of the server's gradient in Fig. 6, in percent."""
    of_rule = f"`aggregator.rule._target_`.str.endswith('.{rule}', na=False)"
    return [figure(f"{of_rule} and `aggregator.server_weight` == {weight}")[0] for weight in (0, 0.25, 0.5)]


PAGE = "results/boba/README.md"
RACED = "n == 115 and d == 199210 and threads == 2"
"""The case of Fig. 3 in the later race."""
_CLEAN_RAGE = "aggregator == 'rage' and attack == 'none'"

FACTS = (
    Fact(
        "without attack ({:.1f}) and under all six ({:.1f} to {:.1f}), if each round has a quarter of the attackers.** "
        "If they are drawn like others (`participation_by=null`), {:d} of 200 rounds have more than f, and BOBA ends "
        "with {:.1f} under Gauss. The paper does not say how it draws. Without attack Average has {:.1f}, Multi-Krum "
        "{:.1f} and FLTrust {:.1f}",
        in_whole_batches,
    ),
    Fact(
        "with a quarter of the clients {} of {} cells are inside, with half {} of {}.",
        lambda: [
            found for share in (0.25, 0.5) for found in agreeing("boba/table8", f"participation={share:.2f}")[2::-2]
        ],
        slow=True,
    ),
    Fact(
        "Without attack it loses {:.1f} points of a class's recall at most, the next rule {:.1f}. Its worst case is "
        "{:.1f}, the next {:.1f}.",
        ahead_on_mnist,
        slow=True,
    ),
    Fact(
        "**On MNIST, {} of {} cells of Tables 1, 2 and 7 are [inside](../GLOSSARY.md): {} within two points, {} within "
        "the printed spread only, and {} diverged as printed.",
        lambda: [sum(agreeing(f"boba/table{n}_mnist")[i] for n in (1, 2, 7)) for i in (2, 0, 3, 4, 5)],
        slow=True,
    ),
    Fact(
        "Five seeds, as in the paper, the last of 200 rounds, all 16 rules "
        "(`robustfl-results table boba/table1_mnist`): {2} of {0} cells are inside, {3} within two points.",
        lambda: agreeing("boba/table1_mnist"),
        slow=True,
    ),
    Fact(
        "an accuracy of {:.1f} (published 76.7 (1.4)) and a max recall drop of {:.1f} (59.9 (10.2)). With every seed "
        "class 5 is hardly learned in round 200, a recall of {:.0f} to {:.0f}%",
        lambda: [
            *means("none", "bygars"),
            drops("bygars").mean(),
            recalls("bygars")[5].min(),
            recalls("bygars")[5].max(),
        ],
    ),
    Fact(
        "all 15 rules under all six attacks (`robustfl-results table boba/table2_mnist`): {2} of {0} cells are "
        "inside, {3} within two points. In {5} of these the model diverged",
        lambda: agreeing("boba/table2_mnist"),
        slow=True,
    ),
    Fact("| RAGE, Gauss | {:.1f} |", lambda: means("gauss", "rage")),
    Fact(
        "| RAGE, Mimic | {:.1f} | 63.9 (2.3) | open. Which client is copied does not decide it: three others lead to "
        "{:.1f} to {:.1f}",
        lambda: [*means("mimic", "rage"), *extremes("boba/outliers.csv", "aggregator == 'rage' and attack == 'mimic'")],
    ),
    Fact("| RAGE, LIE | {:.1f} |", lambda: means("lie", "rage")),
    Fact("| TrMean, IPM | {:.1f} |", lambda: means("ipm", "trmean")),
    Fact("| SelfRej, Zeno, IPM | {:.1f}, {:.1f} |", lambda: means("ipm", "selfrej", "zeno")),
    Fact(
        "| ByGARS, Gauss, Mimic | {:.1f}, {:.1f} | 76.7 (1.4), 77.1 (1.3) | as without attack ({:.1f} against",
        lambda: [means(attack, "bygars")[0] for attack in ("gauss", "mimic", "none")],
    ),
    Fact(
        "that of the trimmed mean most: {:.1f} alone, {:.1f} with a quarter and {:.1f} with half of it; Multi-Krum has "
        "{:.1f}, {:.1f} and {:.1f}.",
        lambda: [*mixed("TrMean"), *mixed("Krum")],
    ),
    Fact(
        "with each of four noises in the server's data BOBA has {:.0f} to {:.0f} (Fig. 4), with 40 of its samples from "
        "each of two classes and 20 from each of the other two {:.0f} to {:.0f} (Fig. 8),",
        lambda: [
            *figure("aggregator == 'boba' and server_data == 'noisy' and dataset == 'mnist'"),
            *figure("aggregator == 'boba' and dataset == 'ag_news'"),
        ],
    ),
    Fact(
        "After 20 rounds BOBA has {:.0f} to {:.0f} with FedAvg, {:.0f} to {:.0f} with FedProx and {:.0f} to {:.0f} "
        "with FedSGD (Fig. 14).",
        lambda: [
            end
            for name in ("fedavg", "fedprox", "fedsgd")
            for end in figure(f"aggregator == 'boba' and rounds == 20 and local_update == '{name}'")
        ],
    ),
    Fact(
        "| Average {:.1f}, AvgRej {:.1f} |",
        lambda: percent(
            "boba/options.csv", *(f"aggregator == '{r}' and attack == 'gauss'" for r in ("average", "avgrej"))
        ),
    ),
    Fact("CooMed {:.1f} (89.6), ByGARS {:.1f} (85.0)", lambda: cells_of_boba("lie", "coomed", "bygars")),
    Fact(
        "Average {:.1f}, {:.1f} (90.0, 90.8); GeoMed {:.1f}, {:.1f} (91.2",
        lambda: [cells_of_boba(a, r)[0] for r in ("average", "geomed") for a in ("minmax", "minsum")],
    ),
    Fact(
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
        "Without attack Average has {:.1f} after the 40 rounds",
        lambda: means_of("boba/table1_cifar10_quick.csv", "aggregator == 'average' and attack == 'none'"),
    ),
    Fact(
        "at quick scale one, two and three passes without attackers have {:.1f}, {:.1f} and {:.1f}",
        lambda: means_of("boba/outliers.csv", *(f"{_CLEAN_RAGE} and num_byzantine_declared == {f}" for f in (1, 2, 3))),
    ),
    Fact(
        "with up to five seeds where a claim needs them (`robustfl-results table boba/table7_mnist`): {2} of {0} "
        "cells are inside, {3} within two points.",
        lambda: agreeing("boba/table7_mnist"),
        slow=True,
    ),
    Fact(
        "BOBA's worst case is the best of the means ({:.1f}; Multi-Krum {:.1f}, FLTrust {:.1f})",
        lambda: measured("boba/table7_mnist", "worst", "boba", "mkrum", "fltrust"),
        slow=True,
    ),
    Fact("BOBA takes {:.2f} of one Gram matrix", lambda: before("../boba/fig3", "per_gram", ["boba"], "rule")),
    Fact("and is faster than {} of the {} baselines;", lambda: faster_than("boba/fig3.csv", "per_gram")),
    Fact(
        "in the later [race](../bench/README.md) {:.2f}, faster than {}.",
        lambda: [
            *runs("bench/rules.csv").query(f"rule == 'boba' and {RACED}")["/ Gram"],
            faster_than("bench/rules.csv", "/ Gram", RACED)[0],
        ],
    ),
    Fact(
        "Average and AvgRej diverge in rounds {} and {} (",
        lambda: diverged_in(
            "boba/runs.csv", *(f"aggregator == '{rule}' and attack == 'gauss'" for rule in ("average", "avgrej"))
        ),
    ),
    Fact("| MNIST | {}; {} to {} | 3.29", lambda: fits("mnist_25")),
    Fact("| CIFAR-10 | {}; {} to {} | 3.20", lambda: fits("cifar10_quick")),
    Fact("| AG-News | {}; {} to {} | 4.77", lambda: fits("ag_news_quick")),
    Fact(
        "{:.1f} ms for BOBA-ES and {:.2f} ms for BOBA without attack, {:.1f} and {:.2f} under IPM",
        lambda: [*search("none"), *search("ipm")],
    ),
)
