"""The facts of results/brace/README.md."""

from collections.abc import Collection, Sequence
from functools import cache, partial

import pandas as pd

from scripts.checks.facts.fact import ROOT, Fact
from scripts.checks.facts.kept import ends, extremes, measured_in, runs


@cache
def brace(value: str = "final_accuracy") -> pd.DataFrame:
    """BRACE's Table 2(a): the mean of a value of each rule under each attack; of accuracies as test errors."""
    seeds = pd.concat([runs("brace/runs.csv"), runs("brace/seeds.csv")])
    means = seeds.pivot_table(index="aggregator", columns="attack", values=value)
    return 1 - means if value.endswith("accuracy") else means


def brace_harm() -> list[float]:
    """The least and the largest error of BRACE, that without attack, and by how much it grows under label flipping, the
    adaptive attack and the backdoor, which are alike, under the Krum attack and under Trim."""
    errors = brace().loc["brace"]
    harm = errors - errors["none"]
    (alike,) = {round(harm[name], 2) for name in ("label_flip", "adaptive", "backdoor")}
    assert max(harm[["minmax", "minsum", "gaussian"]]) < 0.005, "they cost nothing"
    return [*ends(errors), float(errors["none"]), float(alike), *map(float, harm[["krum_attack", "trim_attack"]])]


def brace_worst() -> list[float]:
    """The largest error of BRACE, Krum and RAR under an attack, and the least and largest of the other rules."""
    worst = brace().max(axis=1)
    others = worst.drop(["brace", "krum", "rar"])
    return [*(float(worst[rule]) for rule in ("brace", "krum", "rar")), *ends(others)]


def brace_first() -> list[object]:
    """In how many columns BRACE has the least error, of how many, and by how much it misses it elsewhere."""
    gap = brace().loc["brace"] - brace().min()
    return [int((gap == 0).sum()), len(gap), *ends(gap[gap > 0])]


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


@cache
def printed_in_table_2a() -> "pd.Series[float]":
    """The test errors that BRACE's Table 2(a) prints, by rule and attack."""
    table = pd.read_csv(ROOT / "robustfl_bench/read/papers/brace.csv", dtype={"table": str})
    return table.query("table == '2a' and metric == 'test_error'").set_index(["aggregator", "attack"])["mean"]


def one_bit(rule: str) -> list[float]:
    """The mean errors of a rule in results/brace/one_bit.yaml, without attack, under each attack and the worst."""
    table = runs("brace/one_bit_runs.csv").query("validation_share.isna() and aggregator == @rule")
    errors = (1 - table.groupby("attack")["final_accuracy"].mean())[
        ["none", "krum_attack", "trim_attack", "minmax", "adaptive"]
    ]
    return [float(error) for error in (*errors, errors.drop("none").max())]


def kilobytes(rule: str, *ways: str) -> list[float]:
    """What a client sends in a round of BRACE's setting, in kilobytes, by way."""
    sent = runs("brace/bytes.csv").set_index(["way", "rule"])["bytes"]
    return [float(sent[way, rule]) / 1000 for way in ways]


def errors(condition: str, *, path: str = "brace/options.csv") -> float:
    """The test error of the only run of BRACE that meets a condition."""
    return 1 - float(runs(path).query(condition)["final_accuracy"].item())


def error_at(rule: str, attack: str, condition: str = "seed >= 0") -> list[float]:
    """The same of the only run of a rule under an attack."""
    return [errors(f"aggregator == '{rule}' and attack == '{attack}' and {condition}")]


def fig4(threshold: float, q: float) -> float:
    """The test error of BRACE in its Fig. 4 with a threshold and a non-IID degree."""
    return errors(f"`aggregator.threshold` == {threshold} and `partition.q` == {q}", path="brace/fig4.csv")


def fig3b(rule: str, q: float) -> float:
    """The test error of a rule in its Fig. 3(b) with a non-IID degree."""
    place = f"`partition.q` == {q} and num_byzantine == 20 and num_clients == 100 and seed == 0"
    return errors(f"aggregator == '{rule}' and {place}", path="brace/figures_quick.csv")


def in_table_2a(attacks: Sequence[str], rules: Sequence[str] = (), without: Sequence[str] = ()) -> list[float]:
    """The least and the largest error of rules under attacks in BRACE's Table 2(a)."""
    return ends(brace().loc[list(rules) or slice(None)].drop(list(without))[list(attacks)].to_numpy().flat)


def votes(share: str, attacks: Collection[str] = (), low: int = 1, high: int = 20) -> list[float]:
    """The least and the largest share of coordinates under some attacks, by default all, in the rounds from low to
    high."""
    table = measured_in("brace/votes.csv").query("panel == @share and @low <= x <= @high")
    return ends(table[table["line"].isin(attacks or table["line"])]["mean"])


PAGE = "results/brace/README.md"

FACTS = (
    Fact(
        "It sends {:.2f} of the bytes. On Fashion-MNIST Trim takes its error to {:.2f} where {:.2f} is printed, and "
        "signSGD's to {:.2f}, too. By the means BRACE errs least in {} of {} columns.",
        lambda: [
            kilobytes("brace", "ring")[0] / kilobytes("rar", "ring")[0],
            brace_worst()[0],
            printed_in_table_2a().unstack().loc["brace"].max(),
            brace().loc["signsgd"].max(),
            *brace_first()[:2],
        ],
    ),
    Fact("no rate of five gains more than {:.2f} points over the rate taken", lambda: [gained_by_own_rates()]),
    *(
        Fact(
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
        "sends {:.3f} of a plain ring's bytes for rules that treat columns alone and {:.2f} for Krum and the geometric "
        "median",
        lambda: [kilobytes(rule, "all-reduce")[0] / kilobytes("rar", "ring")[0] for rule in ("median", "krum")],
    ),
    Fact(
        "BRACE's ring sends {:.2f} of a plain ring's bytes as printed, and {:.2f} with",
        lambda: [sent / kilobytes("rar", "ring")[0] for sent in kilobytes("brace", "ring", "ring, needed")],
    ),
    Fact(
        "to a server a client sends {:.1f} kB, 1/{:.0f} of BRACE's ring",
        lambda: [kilobytes("brace", "star")[0], kilobytes("brace", "ring")[0] / kilobytes("brace", "star")[0]],
    ),
    Fact(
        "With the best round of ten it still errs {:.2f} without attack, the paper 0.21",
        lambda: [brace("best_accuracy").loc["krum", "none"]],
    ),
    Fact(
        "With a rate of 0.2 RAR errs {:.2f}, with 0.001 BRACE {:.2f}",
        lambda: [*error_at("rar", "trim_attack", "lr == 0.2"), *error_at("brace", "trim_attack", "lr == 0.001")],
    ),
    Fact(
        "brings RAR from {:.2f} to {:.2f} and the trimmed mean from {:.2f} to {:.2f} under Min-Max, towards the "
        "printed 0.54 and 0.25, but not the median ({:.2f}); with `unit` the three err {:.2f}, {:.2f} and {:.2f}",
        minmax_signs,
    ),
    *(
        Fact(f"| {rule} | none | `lr={lr}`{taken} | {{:.3f}} |", partial(error_at, rule.lower(), "none", f"lr == {lr}"))
        for rule, lr, taken in (
            ("RAR", 0.2, ""),
            ("RAR", 0.3, ", taken"),
            ("BRACE", 0.001, ""),
            ("BRACE", 0.002, ", taken"),
            ("BRACE", 0.003, ""),
        )
    ),
    *(
        Fact(
            f"| RAR | Min-Max | {words} | {{:.3f}} |",
            partial(error_at, "rar", "minmax", f"`attack.perturbation` == '{name}'"),
        )
        for words, name in (("`lr=0.2 attack.perturbation=inverse_std`", "inverse_std"), ("`lr=0.2` (plus)", "std"))
    ),
    Fact(
        "`attack.factor=1,1.3,1.6,2` have {:.2f}, {:.2f}, {:.2f}, {:.2f} (",
        lambda: [errors(f"attack == 'adaptive' and `attack.factor` == {x}") for x in (1, 1.3, 1.6, 2)],
    ),
    Fact(
        "0 is best at q = 0.1 and 0.5, {:.2f} and {:.2f}; 5, the printed value, has {:.2f} and {:.2f}.",
        lambda: [fig4(t, q) for t in (0, 5) for q in (0.1, 0.5)],
    ),
    Fact("Seen: {:.2f} and {:.2f} with 40.", lambda: [fig4(40, q) for q in (0.1, 0.5)]),
    Fact(
        "from 5 to 20 errors grow by {:.2f} at q = 0.1 and by {:.2f} at q = 0.5",
        lambda: [fig4(20, q) - fig4(5, q) for q in (0.1, 0.5)],
    ),
    Fact("learns little at any degree ({:.2f} to {:.2f}).", lambda: ends(fig3b("rar", q) for q in (0.1, 0.5, 0.9))),
    Fact(
        "| RAR, signSGD, RLR and BRACE learn equally well without attack | {:.2f} to {:.2f} |",
        lambda: in_table_2a(["none"], ["rar", "signsgd", "rlr", "brace"]),
    ),
    Fact(
        "fatal for the rule Krum alone | {:.2f}, as printed; all others {:.2f} to {:.2f} (",
        lambda: [in_table_2a(["krum_attack"], ["krum"])[0], *in_table_2a(["krum_attack"], without=["krum"])],
    ),
    Fact(
        "median and trimmed mean to Trim | {:.2f}, {:.2f} and {:.2f}; {:.2f} and {:.2f} |",
        lambda: [
            *brace().loc["rar", ["trim_attack", "minmax", "minsum"]],
            *brace().loc[["median", "trimmed_mean"], "trim_attack"],
        ],
    ),
    Fact("| not here: {:.2f} to {:.2f} |", lambda: in_table_2a(["minmax", "minsum"], ["median", "trimmed_mean"])),
    Fact("| not with our attack: {:.2f} (BRACE: {:.2f}).", lambda: brace().loc[["rar", "brace"], "adaptive"].tolist()),
    Fact(
        "| RAR does not ({:.2f}), Krum, median and trimmed mean do, at {:.2f} to {:.2f}. signSGD, RLR and BRACE do not "
        "|",
        lambda: [
            brace("last.attack_success_rate").loc["rar", "backdoor"],
            *ends(brace("last.attack_success_rate").loc[["krum", "median", "trimmed_mean"], "backdoor"]),
        ],
    ),
    Fact(
        "succeeds against signSGD, RLR and BRACE in {:.2f} to {:.2f} of all cases",
        lambda: ends(brace("last.attack_success_rate").loc[["signsgd", "rlr", "brace"], "backdoor"]),
    ),
    Fact(
        "# Fashion-MNIST, {} runs of {:.0f} to {:.0f} minutes of one core each",
        lambda: [len(runs("brace/runs.csv")), *extremes("brace/runs.csv", "seconds > 0", "seconds", 1 / 60)],
    ),
    Fact(
        "{:.2f} to {:.2f}, and {:.2f} without attack: Min-Max, Min-Sum and noise cost nothing, label flipping, the "
        "adaptive attack and the backdoor {:.2f}, the Krum attack {:.2f}, Trim {:.2f}.",
        brace_harm,
    ),
    Fact(
        "Its worst column ({:.2f}) is the best of all rules: Krum {:.2f}, RAR {:.2f}, the others {:.2f} to {:.2f}",
        brace_worst,
    ),
    Fact(
        "| in {} of {}: Min-Max and Min-Sum; elsewhere RAR (none, label flip, backdoor), RLR (Gaussian, Krum, "
        "adaptive) or Krum (Trim) by {:.3f} to {:.2f} |",
        brace_first,
    ),
    Fact(
        "BRACE goes from {:.2f} to {:.2f}, Krum from {:.2f} to {:.2f}. RAR learns",
        lambda: [fig3b(rule, q) for rule in ("brace", "krum") for q in (0.1, 0.9)],
    ),
    Fact("RAR ends at {:.2f} (batches of 8, 100 rounds, rate 0.2", partial(error_at, "rar", "gaussian")),
    Fact(
        "without attackers too: {:.2f} to {:.2f} of the votes exceed lambda", lambda: votes("vote above the threshold")
    ),
    Fact(
        "round 5 on without attack ({:.2f} to {:.2f} of the coordinates), and with label flipping, noise and the "
        "backdoor ({:.2f} to {:.2f}). It fails under Trim ({:.2f} to {:.2f} in rounds 1 to 10), where BRACE errs most, "
        "and under the adaptive attack ({:.2f} to {:.2f}), which does it little harm.",
        lambda: [
            *votes("outcome as the honest mean", ["none"], low=5),
            *votes("outcome as the honest mean", ["label_flip", "gaussian", "backdoor"], low=5),
            *votes("outcome as the honest mean", ["trim_attack"], high=10),
            *votes("outcome as the honest mean", ["adaptive"], high=10),
        ],
    ),
    Fact(
        "With attackers, honest votes alone settle {:.2f} to {:.2f} of the outcomes.",
        lambda: votes("settled by honest votes", set(measured_in("brace/votes.csv")["line"]) - {"none"}),
    ),
)
