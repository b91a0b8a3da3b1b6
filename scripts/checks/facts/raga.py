"""The facts of results/raga/README.md."""

from collections.abc import Iterable, Sequence
from functools import partial

import pandas as pd

from robustfl_bench.runner.config import compose
from scripts.checks.facts.fact import ROOT, Fact
from scripts.checks.facts.kept import agreeing, diverged_in, ends, extremes, percent, runs


def best(path: str, *conditions: str) -> list[float]:
    """The best accuracy of the only run that meets each condition, in percent."""
    return percent(path, *conditions, column="best_accuracy")


def _raga(phi: float) -> str:
    return f"`partition.alpha` == {phi} and model == 'mlp'"


_OF_CLASSES = "`partition.per` == 'class' and byzantine_share_by == 'clients'"


def mca_over_seeds(attack: str) -> list[float]:
    """The mean over seeds of MCA's best accuracy in Table III under an attack, in percent, with phi 0.6 and 0.2."""
    both = pd.concat([runs(_TABLE_III), runs("raga/seeds.csv")]).query(f"aggregator == 'mca' and {attack}")
    means = [both.query(_raga(phi)) for phi in (0.6, 0.2)]
    assert all({0, 1, 2} <= {*one["seed"]} for one in means)
    return [100 * one["best_accuracy"].mean() for one in means]


def raga_first(phi: float) -> list[object]:
    """In how many columns of Table III RAGA is first, and the number of columns."""
    table = runs("raga/runs.csv").query(_raga(phi)).pivot(
        index="aggregator", columns=["attack", "num_byzantine"], values="best_accuracy"
    )  # fmt: skip
    return [int((table.idxmax() == "raga").sum()), table.shape[1]]


def in_figure(rules: Sequence[str], condition: str) -> list[float]:
    """The least and the largest best accuracy of rules in a figure at quick scale, in percent."""
    return extremes(_FIGURES, f"aggregator in {list(rules)} and {condition}", column="best_accuracy")


def steps() -> list[int]:
    """Of the panels of Fig. 9 and 10 at quick scale: in how many two or three local steps are best in the last round,
    how many there are, and in how many one is the worst, and five are."""
    kept = runs(_FIGURES).query("aggregator == 'raga' and attack == 'gaussian' and `partition.alpha` != 0.4")
    panels = kept.pivot(
        index=["partition.alpha", "dataset", "model"], columns="local_update.steps", values="final_accuracy"
    )
    best, worst = panels.idxmax(axis=1), panels.idxmin(axis=1)
    return [int(best.isin([2, 3]).sum()), len(panels), int((worst == 1).sum()), int((worst == 5).sum())]


def exponents(attack: str) -> list[float]:
    """The mean test loss of each exponent at which RAGA's rate falls, from the smallest on."""
    kept = runs(_FIGURES).query(f"attack == '{attack}' and `schedule.exponent`.notna()")
    return list(kept.groupby("schedule.exponent")["test_loss"].mean())


def table_iii(
    rule: str,
    attack: str,
    phi: float = 0.6,
    path: str = "raga/runs.csv",
    more: str = "seed == 0",
    numbers: Sequence[int] = (5, 10, 15, 20),
) -> list[float]:
    """The best accuracies of a rule under an attack by so many of the 50 clients, in percent."""
    condition = f"aggregator == '{rule}' and attack == '{attack}' and {_raga(phi)} and {more}"
    return best(path, *(f"{condition} and num_byzantine == {number}" for number in numbers))


def each_of(path: str, rules: Iterable[str], condition: str) -> list[float]:
    """The best accuracies of rules in the only run of each that meets a condition, in percent."""
    return best(path, *(f"aggregator == '{rule}' and {condition}" for rule in rules))


def on_cifar10(path: str, condition: str) -> list[float]:
    """The best accuracies of RAGA, FedAvg, Median, Byrd-SAGA, RFA and MCA in Table IV without attack, each the mean of
    its seeds, as far as they were run, in percent."""
    chosen = runs(f"raga/{path}.csv").query(f"dataset == 'cifar10' and scale == 'paper' and {condition}")
    found = chosen[chosen["attack"] == "none"].groupby("aggregator")["best_accuracy"].mean()
    order = ("raga", "fedavg", "median", "byrd_saga", "rfa", "mca")
    return [100 * float(found[rule]) for rule in order if rule in found.index]


_MLP, _SIX = "model == 'mlp'", 6 * "{:.1f} | "


def lie_of(path: str, noise: str) -> list[float]:
    """The accuracy under LIE by 40%, of RAGA, Median, Byrd-SAGA, RFA and MCA, in percent."""
    chosen = f"attack == 'lie' and num_byzantine == 20 and {noise} and {_raga(0.6)} and {_OF_CLASSES}"
    return each_of(path, ("raga", "median", "byrd_saga", "rfa", "mca"), chosen)


def near_in_table_iii(phi: float) -> list[int]:
    """How many cells of RAGA's Table III have a number, of how many, and how many are within two points."""
    printed = pd.read_csv(ROOT / "robustfl_bench/read/papers/raga.csv", dtype={"table": str})
    printed = printed[(printed["table"] == "III") & (printed["setting"] == f"phi={phi}") & (printed["model"] == "mlp")]
    printed = printed.assign(num_byzantine=(50 * printed["attack_fraction"]).round().astype(int))
    both = printed.merge(runs("raga/runs.csv").query(_raga(phi)), on=["aggregator", "attack", "num_byzantine"])
    measured = both["best_accuracy"].notna()
    return [int(measured.sum()), len(both), int(((100 * both["best_accuracy"] - both["mean"]).abs() <= 2).sum())]


def fedavg_of_lenet() -> list[float]:
    """FedAvg in Table II: the mean accuracy without attack with phi 0.6, in percent, and its seeds; in how many runs it
    reaches a fifth under noise, and under sign flipping by 20% and more, and the number of these runs."""
    own = runs("raga/lenet.csv").query("aggregator == 'fedavg'")
    clean = own.query("attack == 'none' and `partition.alpha` == 0.6")["best_accuracy"]
    harmed = own.query("attack == 'gaussian' or (attack == 'sign_flip' and num_byzantine >= 10)")["best_accuracy"]
    return [100 * float(clean.mean()), len(clean), int((harmed > 0.2).sum()), len(harmed)]


_LENET = "model == 'lenet'"


def of_seed_0(
    phi: float, *cells: tuple[str, str, int], path: str = "raga/lenet.csv", more: str = _LENET
) -> list[float]:
    """The best accuracies of cells with seed 0, each a rule, an attack and a number of attackers, in percent; by
    default of Table II."""
    where = f"{more} and seed == 0 and `partition.alpha` == {phi}"
    return best(
        path, *(f"{where} and aggregator == '{r}' and attack == '{a}' and num_byzantine == {n}" for r, a, n in cells)
    )


def at_rates(rule: str) -> list[float]:
    """A rule under sign flipping by 20% in Table III, and its best accuracies at two larger rates, in percent."""
    rates = (f"aggregator == '{rule}' and lr == {lr}" for lr in (0.1, 0.3))
    return [*table_iii(rule, "sign_flip", numbers=(10,)), *best("raga/rates.csv", *rates)]


def with_other_settings(phi: float, *cells: tuple[str, str, int]) -> list[float]:
    """The same of Table II, with more steps or another rate."""
    return of_seed_0(phi, *cells, path="raga/options.csv")


def flipped(rule: str, phi: float, byzantine: int, path: str = "raga/lenet.csv") -> "pd.Series[float]":
    """The best accuracies of a rule with LeNet on MNIST under sign flipping, in percent; by default of Table II."""
    cell = f"attack == 'sign_flip' and num_byzantine == {byzantine} and `partition.alpha` == {phi}"
    return 100 * runs(path).query(f"aggregator == '{rule}' and {_LENET} and {cell}")["best_accuracy"]


def with_ten_in_table_iii(phi: float, *attacks: tuple[str, int]) -> list[float]:
    """The best accuracies of RFA with ten steps in Table III, in percent."""
    ten = "model == 'mlp' and `aggregator.steps` == 10"
    return of_seed_0(phi, *(("rfa", *attack) for attack in attacks), path="raga/options.csv", more=ten)


def ahead_in_table_ii() -> list[int]:
    """In how many columns of Table II RAGA is ahead of all others with seed 0, and how many there are."""
    columns = ["partition.alpha", "attack", "num_byzantine"]
    own = runs("raga/lenet.csv").query("seed == 0")
    best = own.set_index([*columns, "aggregator"])["best_accuracy"].unstack().fillna(0)
    return [int((best["raga"] > best.drop(columns="raga").max(axis=1)).sum()), len(best)]


def other_readings(*conditions: str) -> list[float]:
    """RAGA's accuracies with 40% Byzantine under other readings of an attack, in percent."""
    own = f"aggregator == 'raga' and num_byzantine == 20 and {_raga(0.6)}"
    return best("raga/options.csv", *(f"{own} and {condition}" for condition in conditions))


_OWN_SIGNS, _NO_NOISE = "`attack.flip` == 'own'", "`attack.noise`.isna() and attack == 'lie'"


_TABLE_III = "raga/runs.csv"
_FIGURES = "raga/figures_quick.csv"
_FIG_3 = "dataset == 'cifar10' and model == 'lenet' and num_byzantine == 8"
_FIG_4 = "dataset == 'mnist' and `partition.alpha` == 0.4"
OTHERS = ("median", "mca", "byrd_saga")


def median_rate() -> float:
    """Median's rate in Table IV with the MLP."""
    return float(compose.resolve(["+setting=raga/cifar10_mlp", "+method=raga/own/median"]).config["lr"])


def near_in_table_iv(rule: str, path: str, condition: str) -> list[int]:
    """Of a rule's cells of Table IV with the MLP, how many seed 0 has within two points of the printed number under a
    condition, and how many were run."""
    printed = pd.read_csv(ROOT / "robustfl_bench" / "read" / "papers" / "raga.csv")
    row = printed.query(f"table == 'IV' and model == 'mlp' and aggregator == '{rule}'")
    wanted = {(of["attack"], round(50 * of["attack_fraction"])): of["mean"] for of in row.to_dict("records")}
    chosen = f"{_MLP} and dataset == 'cifar10' and aggregator == '{rule}' and seed == 0 and {condition}"
    measured = runs(path).query(f"{chosen} and `partition.alpha` == 0.4 and `dataset.scaling` == 'symmetric'")
    rows = measured.to_dict("records")
    found = {(of["attack"], int(of["num_byzantine"])): 100 * float(of["best_accuracy"]) for of in rows}
    return [sum(abs(found[cell] - wanted[cell]) <= 2 for cell in found), len(found)]


_LENET_200 = "model == 'lenet' and dataset == 'cifar10' and rounds == 200 and attack == 'gaussian'"


def lenet_without_attack(path: str, rule: str, condition: str) -> list[float]:
    """The best accuracy of a rule on CIFAR-10 with LeNet, seed 0 and pixels from -1 to 1, without attack."""
    place = "model == 'lenet' and dataset == 'cifar10' and attack == 'none' and `dataset.scaling` == 'symmetric'"
    return best(path, f"{place} and seed == 0 and aggregator == '{rule}' and {condition}")


PAGE = "results/raga/README.md"

FACTS = (
    Fact(
        "With the MLP, seed 0 and 200 rounds, {} of its {} cells are within two points of the printed numbers, with "
        "500 rounds {} of {}. With LeNet 200 are too few: {:.1f} without attack (published 42.9; {:.1f} with 500), "
        "{:.1f} and {:.1f} under noise at 10 and 20%",
        lambda: [
            *near_in_table_iv("raga", "raga/options.csv", "rounds == 200"),
            *near_in_table_iv("raga", "raga/cifar10.csv", "rounds == 500"),
            *lenet_without_attack("raga/options.csv", "raga", "rounds == 200"),
            *lenet_without_attack("raga/cifar10.csv", "raga", "rounds == 500"),
            *best("raga/options.csv", *(f"{_LENET_200} and num_byzantine == {number}" for number in (5, 10))),
        ],
    ),
    Fact(
        "With LeNet MCA has {:.1f} at 0.03 (published 35.1), and {:.1f} under noise at 10%",
        lambda: [
            *lenet_without_attack("raga/rates.csv", "mca", "lr == 0.03"),
            *best("raga/rates.csv", "model == 'lenet' and aggregator == 'mca' and attack == 'gaussian' and lr == 0.03"),
        ],
    ),
    Fact(
        "RAGA is first in {} of {} columns of Table III with phi 0.6. In the one column tried (signs flipped by 20%) "
        "larger rates overtake it: at 0.3 the median has {:.1f} and RFA, a geometric median too, {:.1f}, where RAGA "
        "has {:.1f}.**",
        lambda: [
            *raga_first(0.6),
            *each_of("raga/rates.csv", ("median", "rfa"), "lr == 0.3"),
            table_iii("raga", "sign_flip")[1],
        ],
    ),
    Fact(
        "with phi 0.6 and 0.2, has {:.1f} and {:.1f} then, without attack {:.1f} and {:.1f}.",
        lambda: [*mca_over_seeds("attack == 'sign_flip' and num_byzantine == 20"), *mca_over_seeds("attack == 'none'")],
    ),
    Fact(
        "leaves RAGA, Median, Byrd-SAGA, RFA and MCA at {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} at 40%, noise for "
        "each at {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} (published",
        lambda: [
            *lie_of("raga/options.csv", "`attack.noise`.isna()"),
            *lie_of("raga/runs.csv", "`attack.noise` == 'each'"),
        ],
    ),
    Fact("| FedAvg, noise at 10 to 40% | {:.1f} to {:.1f} | 9.8", lambda: ends(table_iii("fedavg", "gaussian"))),
    *(
        Fact(f"| {words}", partial(table_iii, rule, attack, phi, numbers=numbers))
        for words, rule, attack, phi, numbers in (
            (
                "MCA, sign flipping at 20, 30, 40% | {:.1f}, {:.1f}, {:.1f} | 87.9",
                "mca",
                "sign_flip",
                0.6,
                (10, 15, 20),
            ),
            ("RFA, sign flipping at 40% | {:.1f} | 92.3", "rfa", "sign_flip", 0.6, (20,)),
            ("RFA, sign flipping at 40% | {:.1f} | 92.0", "rfa", "sign_flip", 0.2, (20,)),
            ("RFA, noise at 40% | {:.1f} | 91.7", "rfa", "gaussian", 0.2, (20,)),
            ("FedAvg, LIE at 30, 40% | {:.1f}, {:.1f} | 88.0", "fedavg", "lie", 0.6, (15, 20)),
            ("RAGA | {:.2f} (published 95.00) | | | |", "raga", "sign_flip", 0.6, (10,)),
        )
    ),
    Fact(
        "With ten it has {:.1f}, at 30% {:.1f} (90.8), and under noise at 40% {:.1f} (92.3; three steps: {:.1f};",
        lambda: [
            *with_ten_in_table_iii(0.6, ("sign_flip", 20), ("sign_flip", 15), ("gaussian", 20)),
            table_iii("rfa", "gaussian")[3],
        ],
    ),
    Fact(
        "With 10 steps it has {:.1f}, and at 30%, where three of five seeds diverge with three, {:.1f} (91.2) |",
        lambda: with_ten_in_table_iii(0.2, ("sign_flip", 20), ("sign_flip", 15)),
    ),
    Fact(
        "All {} cells are measured, in {} of them a model diverged. {} are inside.",
        lambda: agreeing("raga/table2")[:3],
        slow=True,
    ),
    Fact("With seed 0 RAGA is ahead in {} of {} columns;", ahead_in_table_ii),
    Fact(
        "some seeds diverge: with 10 it has {:.1f}, {:.1f}; {:.1f}, {:.1f} (published 95.2, 94.9; 94.6, 94.3), "
        "and {:.1f}, the mean of {} seeds (93.9) |",
        lambda: [
            *with_other_settings(0.6, ("rfa", "sign_flip", 15), ("rfa", "sign_flip", 20)),
            *with_other_settings(0.2, ("rfa", "gaussian", 20), ("rfa", "sign_flip", 20)),
            (ten := flipped("rfa", 0.2, 15, "raga/options.csv")).mean(),
            len(ten),
        ],
    ),
    Fact(
        "its learning rate: at 0.02 it has {:.1f}, {:.1f}, {:.1f} (published 91.9, 91.9, 90.3) |",
        lambda: with_other_settings(
            0.2, ("median", "gaussian", 5), ("median", "gaussian", 20), ("median", "sign_flip", 15)
        ),
    ),
    Fact(
        "under noise at 40%, phi 0.2, it has {:.1f} at 0.02 and {:.1f} at 0.01 (published 89.8) |",
        lambda: of_seed_0(0.2, noise := ("byrd_saga", "gaussian", 20)) + with_other_settings(0.2, noise),
    ),
    Fact(
        "{} of 156 cells are measured, all of those with the MLP; in {} of them a model diverged; {} are inside.",
        lambda: agreeing("raga/table4")[:3],
        slow=True,
    ),
    *(
        Fact(words, lambda condition=condition, path=path: on_cifar10(path, condition))  # type: ignore[misc]
        for words, path, condition in (
            (
                f"| MLP, -1 to 1 | `cifar10.csv` | {_SIX}",
                "cifar10",
                f"{_MLP} and (aggregator != 'median' or lr == {median_rate()})",
            ),
            (f"| MLP, standardized, Median at 0.01 | `standardized.csv` | {_SIX}", "standardized", _MLP),
            (f"| LeNet, -1 to 1 | `cifar10.csv` | {_SIX}", "cifar10", _LENET),
            ("| LeNet, standardized | `standardized.csv` | {:.1f} | {:.1f} |", "standardized", _LENET),
        )
    ),
    Fact(
        "So Median has {}, and {} of its {} cells are inside, at 0.01 {} of {}.",
        lambda: [
            rate := median_rate(),
            *near_in_table_iv("median", "raga/cifar10.csv", f"lr == {rate}"),
            *near_in_table_iv("median", "raga/cifar10.csv", "lr == 0.01"),
        ],
    ),
    Fact(
        "at the next ones FedAvg has {:.1f}, RFA {:.1f}, Byrd-SAGA {:.1f} and MCA {:.1f} (`rates.0001.csv`).",
        lambda: best(
            "raga/rates.csv",
            *(
                f"{_MLP} and attack == 'none' and lr == {lr} and aggregator == '{rule}'"
                for rule, lr in (("fedavg", 0.0067), ("rfa", 0.0067), ("byrd_saga", 0.03), ("mca", 0.03))
            ),
        ),
    ),
    Fact(
        "learns without attack and under LIE alone, {:.2f} with phi 0.6, the mean of {} seeds (published 95.54)",
        lambda: fedavg_of_lenet()[:2],
    ),
    Fact("diverges or ends near chance but in {} of {} runs, as printed", lambda: fedavg_of_lenet()[2:]),
    *(
        Fact(f"| {words}) | {{:.2f}} | {{:.2f}} |", partial(at_rates, rule))
        for rule, words in (
            ("median", "Median | | {:.2f} (published 91.32"),
            ("rfa", "RFA | | {:.2f} (published 91.86"),
        )
    ),
    Fact("{} of {} cells; in four the model diverged. {} are within 2 points.", lambda: near_in_table_iii(0.6)),
    Fact("{} of {} cells, in three the model diverged. {} are within 2 points.", lambda: near_in_table_iii(0.2)),
    *(
        Fact(
            f"(`{words}`) | {{:.1f}} | {{:.1f}} |",
            partial(other_readings, *(f"{condition} and {attack}" for attack in (_OWN_SIGNS, _NO_NOISE))),
        )
        for words, condition in (
            ("attack.noise=null", _OF_CLASSES),
            ("byzantine_share_by=data", "byzantine_share_by == 'data'"),
            ("partition.per=client", "`partition.per` == 'client'"),
        )
    ),
    Fact("(as in the table) | {:.1f} | |", lambda: table_iii("raga", "sign_flip")[3:]),
    Fact("drawn for each attacker (as in the table) | | {:.1f} |", lambda: table_iii("raga", "lie")[3:]),
    Fact(
        "`attack.noise=shared attack.spread=parameters`) | | {:.1f} |",
        lambda: other_readings("`attack.noise` == 'shared'"),
    ),
    Fact(
        "FedAvg is explained by neither: {:.1f} and {:.1f} (85.9)",
        lambda: [
            *table_iii("fedavg", "lie", path="raga/options.csv", more="`attack.noise`.isna()")[3:],
            *table_iii("fedavg", "lie")[3:],
        ],
    ),
    Fact(
        "(`attack.flip=own`) it has {:.1f}.",
        lambda: best("raga/options.csv", "aggregator == 'fedavg' and num_byzantine == 5 and `attack.flip` == 'own'"),
    ),
    Fact(
        "(Byrd-SAGA {:.1f}, MCA {:.1f}; published",
        lambda: each_of(_TABLE_III, ("byrd_saga", "mca"), f"{_raga(0.6)} and attack == 'none'"),
    ),
    Fact(
        "| Median, noise at 20%, sign flipping at 10, 20, 40% | {:.1f}; {:.1f}, {:.1f}, {:.1f} |",
        lambda: [
            table_iii("median", "gaussian", 0.2)[1],
            *(table_iii("median", "sign_flip", 0.2)[i] for i in (0, 1, 3)),
        ],
    ),
    Fact(
        "With two fifths and LeNet it has {:.1f} in its best round, the others {:.1f} to {:.1f}; FedAvg diverges.",
        lambda: [in_figure(["raga"], _FIG_3)[0], *in_figure([*OTHERS, "rfa"], _FIG_3)],
    ),
    Fact(
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
        "All four runs end between {:.2f} and {:.2f}",
        lambda: extremes(_TABLE_III, f"aggregator == 'fedavg' and {_raga(0.6)} and attack == 'gaussian'"),
    ),
    Fact(
        "with the MLP, RAGA is first everywhere, {:.1f} to {:.1f}",
        lambda: in_figure(["raga"], f"{_FIG_4} and model == 'mlp'"),
    ),
    Fact(
        "({:.2f} to {:.2f} in their best round; RAGA {:.2f})",
        lambda: [
            *in_figure([*OTHERS, "rfa", "fedavg"], f"{_FIG_4} and model == 'lenet' and num_byzantine == 0"),
            in_figure(["raga"], f"{_FIG_4} and model == 'lenet' and num_byzantine == 0")[0],
        ],
    ),
    Fact("(in {} of {} panels). One step is the worst in {}, five are in {}.", steps),
    Fact(
        "(FedAvg {:.1f}, Median {:.1f}, RFA {:.1f} without attack",
        lambda: each_of(_TABLE_III, ("fedavg", "median", "rfa"), f"{_raga(0.6)} and attack == 'none'"),
    ),
    Fact(
        "the test loss is {:.2f}, {:.2f}, {:.2f} and {:.2f} without attack and {:.2f}, {:.2f}, {:.2f} and {:.2f} under",
        lambda: [loss for attack in ("none", "sign_flip") for loss in exponents(attack)],
    ),
)
