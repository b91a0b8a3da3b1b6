"""The facts of results/blindspot/README.md on attack=planned."""

from functools import cache, partial

import pandas as pd

from scripts.checks.facts.fact import Fact
from scripts.checks.facts.kept import CHANCE, percent, runs

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
    """In how many cases the plan is at least as harmful within a point, of how many, and by how much on average."""
    more = planned(kind)["more"]
    return [int((more >= -1).sum()), len(more), float(more.mean())]


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
    return percent("planned/misses.csv", condition)[0]


PAGE = "results/blindspot/README.md"

FACTS = (
    *(
        Fact(
            f"| {cases} | {{}} | {{}} | {{:+.1f}} | {{:.1f}} | {{:.1f}} |",
            partial(lambda kind: [*as_harmful(kind), *foresight(kind)], kind),
        )
        for cases, kind in (
            ("digits, whole local sets, 5 or 10 of 25 attack", "whole"),
            ("digits, mini-batches of 32, 10 of 25 attack", "batches"),
            ("Fashion-MNIST, mini-batches of 32, 5 of 25 attack", "images"),
        )
    ),
    Fact(
        "gains are over `clipped_clustering` ({:+.1f}, mild_dirichlet) and `geomed` ({:+.1f}), both with 5 attackers.",
        lambda: planned("whole")["more"].nlargest(2).tolist(),
    ),
    Fact(
        "Planning costs {:.0f} trainings without attack in the median case. It costs at most {:.0f} for `trmean`, "
        "`krum`, `fltrust` and `norm_bound`. The aim of 60 is missed in {} of {} cases, at worst by `geomed` with "
        "{:.0f}.",
        cost_of_planning,
    ),
    Fact(
        "On one machine, `worst` leaves `boba` {:.1f}% (mild_dirichlet, 5 attackers) and {:.1f}% (pathological, 10)",
        lambda: [missed(f"aggregator == 'boba' and num_byzantine == {number}") for number in (5, 10)],
    ),
    Fact("In {} of {} cases they are at least as harmful", as_harmful_of_all),
)
