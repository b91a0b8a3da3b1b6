"""Figures 2 to 10 of RAGA (Zuo et al., arXiv 2403.13374). Run: python scripts/raga_figures.py fig2 [scale=quick ...]

fig2, fig3    accuracy against the round under sign flipping, MNIST and CIFAR-10, all methods
fig4 .. fig6  best accuracy against the Byzantine share, MNIST, CIFAR-10 and CIFAR-100, all methods
fig7, fig8    RAGA's best accuracy against the skew phi, MNIST with CIFAR-10, and CIFAR-100
fig9, fig10   RAGA's accuracy against the round, by the number of local steps, phi 0.6 and 0.2

Makes the runs of the preset of that name (conf/experiment/raga; those that exist are not made again), with overrides
such as scale=quick or results_dir=DIR, and writes <name>.csv and <name>.png to --output.
"""

import argparse
import csv
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from robustfl_bench.results.styles import styles

from robustfl_bench.config import presets
from robustfl_bench.config.options import CONF
from robustfl_bench.results import records

SHARE = "Byzantine share"


@dataclass(frozen=True)
class Layout:
    """What the panels and the lines of a figure are, by swept key; ``x`` is one too, or the round."""

    panels: tuple[str, ...]
    lines: str
    x: str = "round"


LAYOUTS = {
    **dict.fromkeys(("fig2", "fig3"), Layout(("+setting", SHARE), "+method")),
    **dict.fromkeys(("fig4", "fig5"), Layout(("+setting", "+threat"), "+method", SHARE)),
    "fig6": Layout(("+threat",), "+method", SHARE),
    "fig7": Layout(("+setting",), "+threat", "partition.alpha"),
    "fig8": Layout((SHARE,), "+threat", "partition.alpha"),
    **dict.fromkeys(("fig9", "fig10"), Layout(("+setting",), "local_update.steps")),
}
WORDS = {"partition.alpha": "phi", "local_update.steps": "local steps K", "+method": "method", "+threat": "attack"}


def jobs(name: str, overrides: list[str]) -> list[tuple[dict[str, str], str]]:
    """The swept values and the run id of every run of the preset."""
    given, made = [f"+experiment=raga/{name}", *overrides], []
    keys = presets.swept(given)
    for run in presets.sweep(given):
        values = {key: value for key, value in (item.split("=", 1) for item in run) if key in keys}
        resolved = presets.resolve(run)
        values[SHARE] = f"{int(values['num_byzantine']) / resolved.config['num_clients']:g}"
        made.append((values, resolved.run_id))
    return made


def label(key: str, value: str) -> str:
    """A swept value in a figure: ``raga/own/fedavg`` is fedavg, a setting its data set and model."""
    last = value.rpartition("/")[2]
    return last.replace("_", ", ") if key == "+setting" else last if key.startswith("+") else f"{WORDS[key]} {value}"


def measured(name: str, overrides: list[str], results_dir: str) -> list[dict[str, Any]]:
    """One row per point of the figure: its panel, line, x and accuracy in percent."""
    layout, runs, rows = LAYOUTS[name], records.load(results_dir), []
    folders = dict(zip(runs["run_id"], runs["folder"], strict=True))
    for values, run_id in jobs(name, overrides):
        curve = records.metrics(folders[run_id])
        panel = ", ".join(f"{key} {values[key]}" if key == SHARE else label(key, values[key]) for key in layout.panels)
        place = {"panel": panel, "line": label(layout.lines, values[layout.lines])}
        if layout.x == "round":
            points = zip(curve["round"], curve["test_accuracy"], strict=True)
        else:
            points = iter([(float(values[layout.x]), curve["test_accuracy"].max())])
        rows += [place | {"x": f"{x:g}", "accuracy": f"{100 * accuracy:.2f}"} for x, accuracy in points]
    return rows


def draw(name: str, rows: list[dict[str, Any]], heading: str) -> Figure:
    """One panel for each, up to four across."""
    layout = LAYOUTS[name]
    panels, lines = (list(dict.fromkeys(row[key] for row in rows)) for key in ("panel", "line"))
    across = min(4, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(3.1 * across + 0.4, 2.6 * down + 1.1), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    looks = styles(lines)
    for axis, panel in zip(axes, panels, strict=False):
        for number, line in enumerate(lines):
            points = [(float(row["x"]), float(row["accuracy"])) for row in rows
                      if (row["panel"], row["line"]) == (panel, line)]  # fmt: skip
            colour, marker, dashes = looks[line]
            every = max(1, len(points) // 6)
            axis.plot(
                *zip(*sorted(points), strict=True), color=colour, marker=marker, linestyle=dashes, label=line,
                linewidth=1.3, markersize=5, markevery=(number % every, every),
            )  # fmt: skip
        axis.set_title(panel, fontsize=9)
        axis.set_xlabel(WORDS.get(layout.x, layout.x))
        axis.set_ylim(0, 100)
        axis.grid(color="#dddddd", linewidth=0.6)
    for axis in axes[len(panels) :]:
        axis.remove()
    figure.supylabel("Test accuracy [%]" if layout.x == "round" else "Best test accuracy [%]", fontsize=10)
    figure.suptitle("\n".join(textwrap.wrap(heading, 40 * across)), fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(lines)), frameon=False, fontsize=8)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the runs, the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=LAYOUTS)
    parser.add_argument("overrides", nargs="*", help="of the preset, for all runs")
    parser.add_argument("--output", type=Path, default=Path("results/raga"))
    chosen = parser.parse_args(arguments)
    command = [sys.executable, "-m", "robustfl_bench", "-m", f"+experiment=raga/{chosen.figure}", *chosen.overrides]
    subprocess.run(command, check=True)
    given = dict(override.split("=", 1) for override in chosen.overrides)
    rows = measured(chosen.figure, chosen.overrides, given.get("results_dir", "results"))
    chosen.output.mkdir(parents=True, exist_ok=True)
    with open(chosen.output / f"{chosen.figure}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text = (CONF / "experiment" / "raga" / f"{chosen.figure}.yaml").read_text().splitlines()[2].removeprefix("# ")
    small = " A small version, scale=quick: 20 clients, few rounds." if given.get("scale") == "quick" else ""
    draw(chosen.figure, rows, text + small).savefig(chosen.output / f"{chosen.figure}.png", dpi=150)
    print(chosen.output / f"{chosen.figure}.png")


if __name__ == "__main__":
    main()
