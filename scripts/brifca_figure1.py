"""Figure 1 of BRIFCA (Tao, Yang, Kulkarni, arXiv 2306.00638): run it, and compare it with what the paper says of it.

    python scripts/brifca_figure1.py run --runs DIR [--variant fair] [--variant published] [--ablation]
    python scripts/brifca_figure1.py report --runs DIR --output results/brifca

`run` goes through all cells, the cheap ones first; what is finished is not repeated, so start it again after an
interruption, and start it twice to use two cores. `report` writes tables (CSV) and README.md from whatever is finished,
and says what is not. `robustfl-results figure brifca/fig1a` draws the figure.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pandas as pd

from robustfl_bench.results import records

VARIANTS = {"fair": "distance", "published": "distance_nearest"}  # and what each reports, as the authors' code does
TRIALS, DIMS, CLUSTERS = 50, (20, 50, 100, 200, 500), (2, 5, 10, 15)
METHODS = {  # clustering and rule: name
    ("ifca", "coomed"): "Algorithm 1, median",
    ("ifca", "beta_trmean"): "Algorithm 1, trimmed mean",
    ("ifca", "average"): "IFCA, average",
    ("three_stage", "beta_trmean"): "Three-Stage",
}
NAMES = list(METHODS.values())
MEDIAN, TRIMMED, IFCA, THREE = NAMES
PICTURES = {  # of robustfl-results figure brifca/NAME
    "fig1a": "Distance against the dimension, 5 clusters",
    "fig1b": "Distance against the dimension, 10 clusters",
    "fig1c": "Distance against the number of clusters, 500 dimensions",
}
SWEEPS = (("fig1a",), ("fig1b",), ("fig1c", "dataset.num_clusters=2"), ("fig1c", "dataset.num_clusters=15"))

# What decides the figure: from the fair variant (5 clusters, 20 trials) one thing is changed at a time.
ABLATION_TRIALS, ABLATION_DIMS = 20, (20, 100, 500)
IFCA_METHODS, BASELINE = ("median", "trimmed_mean", "ifca"), ("three_stage",)
ABLATIONS = {
    "as in the fair variant": (IFCA_METHODS,),
    "start near the truth (1/4 of the least distance)": (IFCA_METHODS, "clustering.init=warm"),
    "start as published, the same in all trials": (IFCA_METHODS, "clustering.init=fixed_seed0"),
    "empty model trained by a random client": (IFCA_METHODS, "clustering.empty=random"),
    "attackers choose by the loss at 3 theta": (IFCA_METHODS, "attack.loss_at_3theta=true"),
    "step divided by all clients": (IFCA_METHODS, "clustering.scale_by_share=true"),
    "step divided by all clients, 3000 rounds": (IFCA_METHODS, "clustering.scale_by_share=true", "rounds=3000"),
    "step 0.1": (IFCA_METHODS, "lr=0.1"),
    "no attackers": (IFCA_METHODS, "num_byzantine=0"),
    "as in the fair variant, Three-Stage": (BASELINE,),
    "k-means from the true clusters": (BASELINE, "clustering.kmeans_init=oracle"),
    "k-means from random clients, once": (BASELINE, "clustering.kmeans_init=random"),
    "k-means with 200 restarts": (BASELINE, "clustering.restarts=200"),
    "float32 determinant": (BASELINE, "clustering.erm=float32_det"),
    "float32 determinant, k-means from the true clusters": (
        BASELINE, "clustering.erm=float32_det", "clustering.kmeans_init=oracle",
    ),
    "unit norm": (BASELINE, "clustering.unit_norm=true"),
}  # fmt: skip
GROWTH = ("start near the truth (1/4 of the least distance)", "k-means from the true clusters")  # and with how many k


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--variant", choices=VARIANTS, action="append", help="default: both")
    running.add_argument("--ablation", action="store_true", help="what decides the figure, instead of the figure")
    running.add_argument("--trials", type=int, help=f"default: {TRIALS}, {ABLATION_TRIALS} with --ablation")
    reporting = commands.add_parser("report")
    reporting.add_argument("--output", type=Path, default=Path("results/brifca"))
    for command in (running, reporting):
        command.add_argument("--runs", type=Path, required=True, help="folder with fair/, published/ and ablation/")
    arguments = parser.parse_args()
    if arguments.command == "report":
        report(arguments.runs, arguments.output)
    elif arguments.ablation:
        run_ablation(arguments.runs, arguments.trials or ABLATION_TRIALS)
    else:
        run(arguments.runs, arguments.variant or list(VARIANTS), arguments.trials or TRIALS)


def run(runs: Path, variants: Sequence[str], trials: int) -> None:
    """All cells of the figure."""
    for variant in variants:
        common = (f"variant={variant}", f"seed=range({trials})", f"results_dir={runs / variant}")
        for panel, *overrides in SWEEPS:
            sweep(f"+experiment=brifca/{panel}", *overrides, *common)


def run_ablation(runs: Path, trials: int) -> None:
    """All rows of the tables of what decides the figure."""
    places = [(5, d, tuple(ABLATIONS)) for d in ABLATION_DIMS]
    for k, d, changes in [*places, *((k, 500, GROWTH) for k in CLUSTERS if k != 5)]:
        common = (
            "+setting=brifca/linear_mixture",
            f"dataset.num_clusters={k}",
            f"dataset.dim={d}",
            f"seed=range({trials})",
        )
        for number, (change, (methods, *overrides)) in enumerate(ABLATIONS.items()):
            for method in methods if change in changes else ():
                # One at a time: Hydra applies what is not swept, such as clustering.init, before.
                sweep(*common, f"+method=brifca/{method}", *overrides, f"results_dir={runs / 'ablation' / str(number)}")


def sweep(*overrides: str) -> None:
    """One call of the command; a failed run does not keep the others from being made."""
    # Hydra composes every job of a batch before it starts the first.
    command = [sys.executable, "-m", "robustfl_bench", "-m", "hydra.sweeper.max_batch_size=20", "num_threads=1"]
    subprocess.run([*command, *overrides], check=False)


def load(folder: Path) -> pd.DataFrame:
    """One row per finished run: k, d, seed, method, distances, share of clients in the right cluster, seconds."""
    try:
        found = records.load(folder)
    except records.NoRuns:
        return pd.DataFrame()
    found = found[found["state"] == "finished"]
    last = pd.DataFrame([records.last_metrics(path) for path in found["folder"]], index=found.index)
    pairs = zip(found["clustering"], found["aggregator"], strict=True)
    return pd.DataFrame(
        {
            "k": found["dataset.num_clusters"].astype(int),
            "d": found["dataset.dim"].astype(int),
            "seed": found["seed"].astype(int),
            "method": [METHODS[pair] for pair in pairs],
            "seconds": found["seconds"].astype(float),
            **{name: last[name] for name in ("distance", "distance_nearest", "cluster_recovery")},
        }
    )


def summarise(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Mean and standard error over trials, cell by cell."""
    grouped = runs.groupby(list(by), sort=False)
    table = pd.DataFrame({"trials": grouped.size()})
    for name in VARIANTS.values():
        table[name] = grouped[name].mean()
        table[f"{name}_se"] = grouped[name].sem()
    table["all_clusters_found"] = grouped["cluster_recovery"].agg(lambda share: float((share > 0.99).mean()))
    table["seconds_per_trial"] = grouped["seconds"].mean()
    return table.reset_index()


def differences(runs: pd.DataFrame, k: int, d: int, first: str, second: str, measure: str) -> pd.Series:
    """First minus second, trial by trial; only trials that both have finished."""
    cell = runs[(runs["k"] == k) & (runs["d"] == d)].pivot(index="seed", columns="method", values=measure)
    return (cell.reindex(columns=[first])[first] - cell.reindex(columns=[second])[second]).dropna()


def growth(runs: pd.DataFrame, method: str, measure: str) -> list[str]:
    """A method's mean distance at d = 500 for every k, and whether each step up is one."""
    chosen = runs[(runs["d"] == 500) & (runs["method"] == method)].groupby("k")[measure].agg(["mean", "sem"])
    parts = [f"{row['mean']:.3f} ({row['sem']:.3f})" for _, row in chosen.iterrows()]
    rises = all(a < b for a, b in pairwise(chosen["mean"]))
    whole = tuple(chosen.index) == CLUSTERS
    shown = [parts[list(chosen.index).index(k)] if k in chosen.index else "" for k in CLUSTERS]
    return [method, *shown, ("yes" if rises else "no") if whole else "not run yet"]


def comparison(runs: pd.DataFrame, first: str, others: Sequence[str], places: Sequence[tuple[int, int]],
               measure: str, sign: int) -> list[list[str]]:  # fmt: skip
    """In each (k, d): by how much the first method's distance is above each other one's, and whether the sign is right.

    Differences of less than two standard errors count as not clear.
    """
    lines = []
    for k, d in places:
        gaps = [differences(runs, k, d, first, other, measure) for other in others]
        trials = min(map(len, gaps))
        if trials < 2:
            lines.append([f"k = {k}, d = {d}", *[""] * len(others), "not run yet"])
            continue
        # The claim stands if it does against everyone, and falls if it does against anyone.
        right = [sign * gap.mean() > 0 for gap in gaps]
        clear = [abs(gap.mean()) > 2 * gap.sem() for gap in gaps]
        decided = all(clear) if all(right) else any(c for r, c in zip(right, clear, strict=True) if not r)
        verdict = ("yes" if all(right) else "no") + ("" if decided else ", not clearly")
        verdict += "" if trials == TRIALS else f" ({trials} trials)"
        lines.append([f"k = {k}, d = {d}", *[f"{gap.mean():+.3f} ({gap.sem():.3f})" for gap in gaps], verdict])
    return lines


def table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [heading, ["---", *["---:"] * (len(heading) - 1)], *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def findings(runs: pd.DataFrame, variant: str) -> str:
    """The paper's claims about its figure, one by one."""
    measure = VARIANTS[variant]
    cells = [(k, d) for k in (5, 10) for d in DIMS]
    robust = (MEDIAN, TRIMMED)
    parts = [
        f"### {variant}: {'matched distance' if variant == 'fair' else 'distance to the nearest truth'}",
        "**Three-Stage is best at d = 20 and 50.** Its distance minus each other's (standard error):",
        table(["", MEDIAN, TRIMMED, IFCA, "best?"],
              comparison(runs, THREE, (MEDIAN, TRIMMED, IFCA), [c for c in cells if c[1] <= 50], measure, -1)),
        "**Three-Stage is worst at large d.** The same differences:",
        table(["", MEDIAN, TRIMMED, IFCA, "worst?"],
              comparison(runs, THREE, (MEDIAN, TRIMMED, IFCA), [c for c in cells if c[1] >= 100], measure, +1)),
        "**Every method gets worse as k grows, at d = 500.** Distance (standard error):",
        table(["", *[f"k = {k}" for k in CLUSTERS], "rises?"], [growth(runs, name, measure) for name in NAMES]),
        "**IFCA with the average is worse than Algorithm 1.** Its distance minus that of Algorithm 1 with:",
        table(["", "median", "trimmed mean", "worse?"],
              comparison(runs, IFCA, robust, [*cells, (2, 500), (15, 500)], measure, +1)),
    ]  # fmt: skip
    return "\n\n".join(parts)


def ablation(runs: Path) -> pd.DataFrame:
    """Mean distances of every row of the table of what decides the figure."""
    found = []
    for number, name in enumerate(ABLATIONS):
        rows = load(runs / "ablation" / str(number))
        if len(rows):
            found.append(summarise(rows, ("k", "d", "method")).assign(change=name))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _trials(cells: pd.DataFrame) -> str:
    few, many = cells["trials"].min(), cells["trials"].max()
    return f"{many} trials" if few == many else f"{few} to {many} trials"


def ablation_table(cells: pd.DataFrame, along: str, values: Sequence[int]) -> str:
    """The same as Markdown: one line per change and method, one column per value of k or d."""
    lines = []
    for (change, method), rows in cells.groupby(["change", "method"], sort=False):
        at = rows.set_index(along)
        numbers = [f"{at.distance[x]:.3f} ({at.distance_se[x]:.3f}), {100 * at.all_clusters_found[x]:.0f}%"
                   if x in at.index else "" for x in values]  # fmt: skip
        lines.append([str(change), str(method), *numbers])
    return table(["changed", "method", *[f"{along} = {x}" for x in values]], lines)


def report(runs: Path, output: Path) -> None:
    """Write the CSVs and README.md."""
    output.mkdir(parents=True, exist_ok=True)
    loaded = {variant: load(runs / variant) for variant in VARIANTS}
    loaded = {variant: rows for variant, rows in loaded.items() if len(rows)}
    cells = pd.concat([summarise(rows, ("k", "d", "method")).assign(variant=v) for v, rows in loaded.items()])
    order = {name: number for number, name in enumerate(NAMES)}
    cells = cells.sort_values(["variant", "k", "d", "method"], key=lambda c: c.map(order) if c.name == "method" else c)
    columns = ["variant", *[name for name in cells.columns if name != "variant"]]
    cells[columns].to_csv(output / "figure1.csv", index=False, float_format="%.6g")
    decided = ablation(runs)
    if len(decided):
        decided.to_csv(output / "ablation.csv", index=False, float_format="%.6g")
    hours = {variant: rows["seconds"].sum() / 3600 for variant, rows in loaded.items()}
    expected = TRIALS * len(METHODS) * (2 * len(DIMS) + len(CLUSTERS) - 2)
    done = [f"{v}: {len(rows)} of {expected} runs, {hours[v]:.2f} hours of one core" for v, rows in loaded.items()]
    text = [
        (output / "NOTES.md").read_text().rstrip() if (output / "NOTES.md").exists() else "# BRIFCA, figure 1",
        *(f"![{words}, both variants]({name}.png)" for name, words in PICTURES.items()),
        "Finished: " + "; ".join(done) + ".",
        "## The paper's claims",
        *[findings(rows, variant) for variant, rows in loaded.items()],
    ]
    if len(decided):
        text += [
            "## What decides the figure",
            f"From the fair variant one thing is changed at a time: matched distance (standard error) over "
            f"{_trials(decided)} with 5 clusters, and in how many of them all clients found their clusters.",
            ablation_table(decided[decided["k"] == 5], "d", ABLATION_DIMS),
        ]
        growing = decided[decided["change"].isin(GROWTH) & (decided["d"] == 500)]
        if growing["k"].nunique() > 1:
            text += ["Where the number of clusters grows, at d = 500:", ablation_table(growing, "k", CLUSTERS)]
    (output / "README.md").write_text("\n\n".join(text) + "\n")
    print(f"{output}: {'; '.join(done)}")


if __name__ == "__main__":
    main()
