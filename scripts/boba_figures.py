"""Figures of BOBA (Bao et al., AISTATS 2024) that look inside a round. Run: python scripts/boba_figures.py fig1

fig1   variances of the honest gradients along their principal components at initialisation, MNIST
fig13  the same after FedSGD, FedAvg and FedProx, with and without label skew
fig2   where the rules' first aggregates lie, without and with attacks, in the plane of the first two components
fig5   trimmed reconstruction loss of BOBA as a multiple of BOBA-ES's, round by round

Each reads the preset of its name (conf/experiment/boba), with overrides such as scale=quick or seed=1, and writes
<name>.csv and <name>.png to --output.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from robustfl_bench.results.styles import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY, styles

from robustfl_bench import datasets
from robustfl_bench.aggregators.boba import Boba
from robustfl_bench.config import presets
from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.loop import run
from robustfl_bench.engine.rounds import initial_state
from robustfl_bench.experiment.plan import plan
from robustfl_bench.interfaces import Aggregator, ServerView
from robustfl_bench.numerics.principal import principal_axes, principal_variances
from robustfl_bench.updates import Aggregate, Updates

ATTACKS = ["none", "gauss", "ipm", "lie", "mimic", "minmax", "minsum"]
LINES = {"fedsgd": "-", "fedavg": "--", "fedprox": ":"}
Rows = list[dict[str, Any]]


def cells(name: str, given: list[str]) -> Iterator[tuple[dict[str, str], Federation]]:
    """Every run of the preset: its swept values, and its federation."""
    given = [f"+experiment=boba/{name}", *given]
    keys = presets.swept(given)
    for overrides in presets.sweep(given):
        planned = plan(presets.resolve(overrides).config)
        data = datasets.load(planned.parts.dataset, planned.settings.data_dir, torch.device("cpu"))
        swept = {key: value for key, value in (item.split("=", 1) for item in overrides) if key in keys}
        yield swept, Federation(planned.settings, planned.parts, data)


def first_updates(federation: Federation) -> Updates:
    """The honest clients' updates of the first round."""
    ids = federation.honest_ids.tolist()
    clients = list(range(len(ids)))
    state = initial_state(federation).model(0)
    return federation.train(federation.honest, clients, ids, "batches", state, federation.rows(len(ids)))


def spectrum(name: str, overrides: list[str], axes: Any) -> Rows:
    """Figs. 1 and 13: a line for each way of updating, a colour for each partition."""
    rows: Rows = []
    for job, federation in cells(name, overrides):
        variances = principal_variances(first_updates(federation))
        share, label = variances.cumsum() / variances.sum(), job.get("local_update", "fedsgd")
        skew = job.get("partition", "pathological")
        inside = share[federation.num_classes - 2]
        axes.semilogy(
            np.arange(1, len(variances) + 1),
            variances,
            LINES[label],
            color=BLUE if skew == "iid" else RED,
            label=f"{label}, {skew}: {inside:.2%} in the first {federation.num_classes - 1}",
        )
        rows += [
            {"local_update": label, "partition": skew, "component": i + 1, "variance": v, "cumulative_share": s}
            for i, (v, s) in enumerate(zip(variances.tolist(), share.tolist(), strict=True))
        ]
    axes.axvline(federation.num_classes - 0.5, color="grey", lw=0.8)
    axes.set(xlabel="principal component of the honest updates", ylabel="variance")
    return rows


def plane(name: str, overrides: list[str], axes: Any) -> Rows:
    """Fig. 2: each seed in a plane of its own; what an attack drives out of the picture is only in the table."""
    rows: Rows = []
    known: dict[str, tuple[Updates, torch.Tensor]] = {}
    for job, federation in cells(name, overrides):
        if job["seed"] not in known:
            honest = first_updates(federation)
            known[job["seed"]] = honest, principal_axes(honest, 2)
        honest, directions = known[job["seed"]]
        state, _ = next(run(federation, initial_state(federation)))
        assert state.previous is not None
        x, y = (directions @ (state.previous[0] - honest.matrix.mean(dim=0))).tolist()
        rows.append({"seed": job["seed"], "aggregator": job["aggregator"], "attack": job["attack"], "x": x, "y": y})
    clients = torch.cat([(h.matrix - h.matrix.mean(dim=0)) @ d.T for h, d in known.values()]).numpy()
    axes.scatter(*clients.T, s=6, color="lightgrey", label="honest updates")
    for rule, (colour, marker, _) in styles(list(dict.fromkeys(row["aggregator"] for row in rows))).items():
        own = [row for row in rows if row["aggregator"] == rule]
        for attacked, fill in ((True, "none"), (False, colour)):
            points = np.array([(row["x"], row["y"]) for row in own if (row["attack"] != "none") == attacked])
            label = f"{rule}, {'six attacks' if attacked else 'no attack'}"
            axes.scatter(*points.T, marker=marker, facecolors=fill, edgecolors=colour, s=36, label=label)
    axes.plot(0, 0, "k+", ms=14, mew=2, label="honest mean")
    low, high = clients.min(axis=0) * 1.2, clients.max(axis=0) * 1.2
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="first component", ylabel="second component")
    return rows


class Compared(Aggregator):
    """BOBA, noting each time how its trimmed loss compares with that of the exhaustive search."""

    def __init__(self, rule: Boba) -> None:
        self.rule, self.exhaustive = rule, replace(rule, fit="exhaustive")
        self.ratios: list[float] = []

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        losses = [rule.trimmed_loss(updates, server) for rule in (self.rule, self.exhaustive)]
        self.ratios.append(losses[0] / losses[1])
        return self.rule(updates, server)


def trimmed_loss(name: str, overrides: list[str], axes: Any) -> Rows:
    """Fig. 5."""
    rows: Rows = []
    colours = dict(zip(ATTACKS, (BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE), strict=True))
    for job, federation in cells(name, overrides):
        rule = federation.parts.aggregator
        assert isinstance(rule, Boba)
        compared = Compared(rule)
        federation.parts = replace(federation.parts, aggregator=compared)
        for _ in run(federation, initial_state(federation)):
            pass
        width = 5 - 0.6 * list(colours).index(job["attack"])  # lines that coincide stay visible below each other
        rounds = range(1, len(compared.ratios) + 1)
        axes.plot(rounds, compared.ratios, color=colours[job["attack"]], lw=width, label=job["attack"])
        rows += [{"attack": job["attack"], "round": i + 1, "ratio": ratio} for i, ratio in enumerate(compared.ratios)]
    axes.set(xlabel="round", ylabel="trimmed loss, BOBA / BOBA-ES")
    return rows


FIGURES: dict[str, Callable[[str, list[str], Any], Rows]] = {
    "fig1": spectrum,
    "fig2": plane,
    "fig5": trimmed_loss,
    "fig13": spectrum,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("overrides", nargs="*", help="as for robustfl-bench")
    parser.add_argument("--output", type=Path, default=Path("results/boba"), help="folder (default: results/boba)")
    arguments = parser.parse_args()
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    rows = FIGURES[arguments.figure](arguments.figure, arguments.overrides, axes)
    axes.legend(fontsize="small")
    axes.set_title(" ".join([f"BOBA, {arguments.figure}", *arguments.overrides]), fontsize="medium")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with open(arguments.output / f"{arguments.figure}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows
        )
    figure.savefig(arguments.output / f"{arguments.figure}.png", dpi=150)
    print(arguments.output / f"{arguments.figure}.png")


if __name__ == "__main__":
    main()
