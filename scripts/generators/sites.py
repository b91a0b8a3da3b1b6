"""The tables of results/hospitals and results/diloco: what rules keep among unequal sites, with and without weights by
samples, and among workers who train long between exchanges.

    python scripts/generators/sites.py
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from robustfl_bench.base import seeding
from robustfl_bench.parts.partitions.mixed_skew import MixedSkew
from robustfl_bench.read.runs import archive

RESULTS = Path(__file__).parents[2] / "results"
SIX, EIGHT, WORKERS = "hospitals/six.csv.gz", "hospitals/runs.csv", "diloco/runs.csv.gz"
WEIGHTINGS = ("none", "samples", "capped")
CLAIMED = "false size"
CLIENTS, SAMPLES = 6, 60_000


@cache
def accuracies(name: str, value: str = "last_accuracy") -> pd.DataFrame:
    """Accuracies in percent: a row for each number of clients, rule, weighting and attack, a column for each seed. A
    run that diverged counts as 0."""
    runs = archive.read(str(RESULTS / name))
    runs = runs[runs["state"].isin(("finished", "diverged"))]
    weighted = runs["aggregator._target_"].str.endswith(".Weighted")
    capped, own = (
        runs[column].astype(str).str.lower() == "true" if column in runs else pd.Series(False, runs.index)
        for column in ("aggregator.capped", "aggregator.weighted")
    )
    claims = runs["attack._target_"].str.endswith(".Claiming")
    table = pd.DataFrame(
        {
            "clients": runs["num_clients"].astype(int),
            "rule": runs["aggregator"],
            "weighting": np.select([weighted & capped, weighted | own], ["capped", "samples"], "none"),
            "attack": runs["attack"].where(~claims, CLAIMED),
            "seed": runs["seed"].astype(int),
            "accuracy": 100 * runs[value].astype(float).where(runs["state"] == "finished", 0.0),
        }
    )
    return table.pivot(index=["clients", "rule", "weighting", "attack"], columns="seed", values="accuracy")


def sites(name: str) -> pd.DataFrame:
    """As ``accuracies``, of runs with one number of clients."""
    return accuracies(name).droplevel("clients")


@cache
def rank(seed: int) -> int:
    """The place of the site that attacks, by its samples; 1 is the largest. As a run of ``hospitals/six`` draws it."""
    labels = np.repeat(np.arange(10), SAMPLES // 10)
    parts = MixedSkew()(labels, CLIENTS, seeding.generator(seed, "partition"))
    sizes = [len(part) for part in parts]
    attacker = seeding.generator(seed, "byzantine").permutation(CLIENTS)[0]
    return 1 + sum(size > sizes[attacker] for size in sizes)


def worst(rule: str, weighting: str, seeds: Iterable[int]) -> tuple[float, str]:
    """The least mean accuracy over the attacks, and the attack."""
    means = sites(SIX).loc[(rule, weighting), list(seeds)].drop("none").mean(axis=1)
    return float(means.min()), str(means.idxmin())


def six() -> str:
    """What each rule keeps among six sites: without attack, and where a smaller site lies, or the largest."""
    table = sites(SIX)
    largest = [seed for seed in table.columns if rank(seed) == 1]
    smaller = [seed for seed in table.columns if rank(seed) > 1]
    lines = [
        "| rule | weights | no attack | a smaller site attacks | the largest attacks |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for rule, weighting in table.index.droplevel("attack").unique():
        cells = [f"{table.loc[(rule, weighting, 'none')].mean():.1f}"]
        for seeds in (smaller, largest):
            least, attack = worst(rule, weighting, seeds)
            cells.append(f"{least:.1f} ({attack})")
        lines.append(f"| {rule} | {weighting} | {' | '.join(cells)} |")
    return "\n".join(lines)


def eight() -> str:
    """What weights change among eight sites that send gradients of 32 samples each."""
    table = sites(EIGHT)
    lines = [
        "| rule | no attack, none | samples | capped | label flips, none | samples | capped | false size, samples |"
        " capped |",
        "| --- |" + " ---: |" * 8,
    ]
    for rule in table.index.get_level_values("rule").unique():
        cells = [
            f"{table.loc[(rule, weighting, attack)].mean():.1f}"
            for attack in ("none", "label_flip", CLAIMED)
            for weighting in WEIGHTINGS
            if (attack, weighting) != (CLAIMED, "none")
        ]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


def workers() -> str:
    """What each rule keeps where one of four workers, or of eight, attacks."""
    table = accuracies(WORKERS, "final_accuracy").droplevel("weighting")
    attacks = ["none", *(name for name in table.index.get_level_values("attack").unique() if name != "none")]
    lines = [f"| workers | rule | {' | '.join(attacks)} |", f"| ---: | --- |{' ---: |' * len(attacks)}"]
    for clients, rule in table.index.droplevel("attack").unique():
        means = table.loc[(clients, rule)].mean(axis=1)
        cells = [f"{means[attack]:.1f}" if attack in means else "" for attack in attacks]
        lines.append(f"| {clients} | {rule} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n\n".join((six(), eight(), workers())))
