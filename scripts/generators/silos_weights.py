"""The tables of results/silos_weights from its runs: accuracies, and what weights by samples change.

    python scripts/generators/silos_weights.py [RUNS.csv | RESULTS_DIR]

Prints both tables. Given a folder of results, it first writes its runs to results/silos_weights/runs.csv.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

from robustfl_bench.read.runs import archive, records

RUNS = Path(__file__).parents[2] / "results" / "silos_weights" / "runs.csv"
WEIGHTINGS = ("none", "samples", "capped")
ATTACKS = ("no attack", "label flips", "and a false size")


def read(path: Path) -> pd.DataFrame:
    """Accuracies in percent: a row for each rule, weighting and attack, a column for each seed."""
    runs = archive.read(str(path))
    assert (runs["state"] == "finished").all()
    weighted = runs["aggregator._target_"].str.endswith(".Weighted")
    rule = runs["aggregator"]
    cap = runs["aggregator.capped"].astype(str).str.lower() == "true"
    own = runs["aggregator.weighted"].astype(str).str.lower() == "true"
    attack = runs["attack._target_"].str.rsplit(".").str[-1]
    weighting = np.select([weighted & cap, weighted | own], ["capped", "samples"], "none")
    what = attack.map(dict(zip(("NoAttack", "LabelFlip", "Claiming"), ATTACKS, strict=True)))
    table = pd.DataFrame({"rule": rule, "weighting": weighting, "attack": what, "seed": runs["seed"].astype(int)})
    table["accuracy"] = 100 * runs["last_accuracy"].astype(float)
    return table.pivot(index=["rule", "weighting", "attack"], columns="seed", values="accuracy")


def difference(first: pd.Series, second: pd.Series) -> str:
    """The mean of paired differences, with its 95% interval."""
    each = (first - second).to_numpy()
    half = t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))
    return f"{each.mean():+.1f} [{each.mean() - half:.1f}, {each.mean() + half:.1f}]"


def tables(found: pd.DataFrame) -> tuple[str, str]:
    """The table of accuracies, and that of what weights change."""
    rules = list(dict.fromkeys(found.index.get_level_values("rule")))
    columns = [(attack, weighting) for attack in ATTACKS for weighting in WEIGHTINGS]
    columns.remove((ATTACKS[2], "none"))
    means = ["| rule | " + " | ".join(f"{attack}, {weighting}" for attack, weighting in columns) + " |"]
    means.append("| --- |" + " ---: |" * len(columns))
    for rule in rules:
        numbers = [found.loc[(rule, weighting, attack)].mean() for attack, weighting in columns]
        means.append(f"| {rule} | " + " | ".join(f"{mean:.1f}" for mean in numbers) + " |")
    changes = ["| rule | samples, no attack | samples, label flips | capped, no attack | capped, label flips |"]
    changes.append("| --- | ---: | ---: | ---: | ---: |")
    for rule in rules:
        cells = [
            difference(found.loc[(rule, weighting, attack)], found.loc[(rule, "none", attack)])
            for weighting in WEIGHTINGS[1:]
            for attack in ATTACKS[:2]
        ]
        changes.append(f"| {rule} | " + " | ".join(cells) + " |")
    return "\n".join(means), "\n".join(changes)


def main() -> None:
    """Print the tables."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("runs", type=Path, nargs="?", default=RUNS)
    path = arguments.parse_args().runs
    if path.is_dir():
        archive.write(records.load(path), str(RUNS))
        path = RUNS
    print("\n\n".join(tables(read(path))))


if __name__ == "__main__":
    main()
