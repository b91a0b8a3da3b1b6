"""Figures of ARFL (Li et al., arXiv 2101.05880) from finished runs. Run: python scripts/arfl_figures.py fig5

fig2   test loss and accuracy against the round, for every corruption
fig5   weights of the clients after the last round, and accuracy, against lambda / M
fig7   weights by ARFL, by FedAvg, and by FedAvg with the honest clients alone

Each needs the runs of the preset of its name (robustfl-bench -m +experiment=arfl/fig5) in --results-dir, which may hold
others: conditions such as scale=quick or dataset=mnist_writers choose. Writes <name>.csv and <name>.png to --output.
Figures 3, 4 and 6 are drawn by robustfl-results, as their presets say.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from robustfl_bench.results.styles import BLACK, BLUE, GREY, RED, styles

from robustfl_bench.errors import ConfigError
from robustfl_bench.results import records
from robustfl_bench.results.where import where

SCENARIOS = ("none", "label_shuffle", "label_flip_one", "noisy")
TEN = ("num_clients=10", "attack=label_shuffle", "partition.alpha=0.5")
Drawn = tuple[pd.DataFrame, Figure]


def curves(runs: pd.DataFrame) -> Drawn:
    """Fig. 2: mean over seeds, shaded from lowest to highest."""
    tables = []
    for run in runs[runs["attack"].isin(SCENARIOS)].to_dict("records"):
        table = records.metrics(run["folder"])[["round", "test_loss", "test_accuracy"]]
        tables.append(table.assign(attack=run["attack"], aggregator=run["aggregator"], seed=run["seed"]))
    rows = pd.concat(tables)
    drawn = styles(sorted(set(rows["aggregator"])))
    figure = Figure(figsize=(12, 5.5), layout="constrained")
    grid = figure.subplots(2, len(SCENARIOS), sharex=True, sharey="row")
    for column, attack in enumerate(SCENARIOS):
        for line, value in zip(grid, ("test_loss", "test_accuracy"), strict=True):
            for name, (colour, _, dash) in drawn.items():
                here = rows[(rows["attack"] == attack) & (rows["aggregator"] == name)]
                spread = here.groupby("round")[value].agg(["mean", "min", "max"])
                line[column].plot(spread.index, spread["mean"], color=colour, linestyle=dash, label=name)
                line[column].fill_between(spread.index, spread["min"], spread["max"], color=colour, alpha=0.15, lw=0)
        grid[0][column].set_title(attack)
        grid[1][column].set_xlabel("round")
    grid[0][0].set_yscale("log")
    for axis, label in zip(grid[:, 0], ("test loss", "test accuracy"), strict=True):
        axis.set_ylabel(label)
    figure.legend(*grid[1][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(drawn))
    return rows, figure


def against_lambda(runs: pd.DataFrame) -> Drawn:
    """Fig. 5: one run for each lambda."""
    runs = where(runs, [*TEN, "aggregator=arfl"])
    rows = pd.DataFrame(
        {"lambda": float(run["aggregator.regularization"]), "test_accuracy": run["final_accuracy"]} | last_weights(run)
        for run in runs.to_dict("records")
    ).sort_values("lambda")
    if rows["lambda"].duplicated().any():
        raise ConfigError("several runs have the same lambda; choose by conditions, such as scale=paper")
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in rows.columns[2:]:
        byzantine = name.startswith("byzantine")
        left.plot(
            rows["lambda"], rows[name], color=RED if byzantine else None, ls="--" if byzantine else "-", label=name
        )
    right.plot(rows["lambda"], 100 * rows["test_accuracy"], color=BLACK, marker="o")
    for axis, label in ((left, "weight"), (right, "test accuracy [%]")):
        axis.set_xscale("log")
        axis.set_xlabel("lambda / M")
        axis.set_ylabel(label)
    left.legend(fontsize=7)
    return rows, figure


def compared(runs: pd.DataFrame) -> Drawn:
    """Fig. 7: weights after the last round, lambda = M."""
    chosen = where(runs, [*TEN, "aggregator=arfl,fedavg"])
    found = {}
    for run in chosen.to_dict("records"):
        if run["aggregator"] == "fedavg" or float(run["aggregator.regularization"]) == 1:
            found[run["aggregator"]] = last_weights(run)
    if set(found) != {"arfl", "fedavg"}:
        raise ConfigError("needs a run of arfl with lambda = M and one of fedavg: make +experiment=arfl/fig7")
    rows = pd.DataFrame({"ARFL": found["arfl"], "FedAvg": found["fedavg"]})
    honest = rows["FedAvg"].where(rows.index.str.startswith("client"), 0)
    rows["FedAvg, honest clients alone"] = honest / honest.sum()
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    axis = figure.subplots()
    rows.plot.bar(ax=axis, color=[RED, GREY, BLUE], width=0.8, ylabel="weight")
    return rows.rename_axis("client").reset_index(), figure


def last_weights(run: dict[str, object]) -> dict[str, float]:
    """What every client counted for in the last evaluated round."""
    table = records.weights(str(run["folder"]))
    return {str(name): float(table[name].iloc[-1]) for name in table.columns[1:]}


FIGURES: dict[str, Callable[[pd.DataFrame], Drawn]] = {"fig2": curves, "fig5": against_lambda, "fig7": compared}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("conditions", nargs="*", metavar="KEY=VALUE", help="only these runs")
    parser.add_argument("--results-dir", default="results", help="holds runs/ (results)")
    parser.add_argument("--output", type=Path, default=Path("results/arfl"), help="folder (results/arfl)")
    arguments = parser.parse_args()
    runs = where(records.load(arguments.results_dir), arguments.conditions)
    try:
        rows, figure = FIGURES[arguments.figure](runs[runs["state"] == "finished"])
    except (ConfigError, records.NoRuns, records.Damaged) as error:
        parser.exit(2, f"arfl_figures: {error}\n")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for suffix, write in ((".csv", lambda path: rows.to_csv(path, index=False)), (".png", figure.savefig)):
        path = arguments.output / f"{arguments.figure}{suffix}"
        write(path)
        print(path)


if __name__ == "__main__":
    main()
