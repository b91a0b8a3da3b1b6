"""``robustfl-results plot``: metrics or weights by round, a value by settings, recall per class, or ROC; a picture."""

from __future__ import annotations

import warnings
from argparse import Namespace
from typing import TYPE_CHECKING

from robustfl_bench.base.console import Parser
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.pages import plots
from robustfl_bench.read.pages.pictures.canvas import save
from robustfl_bench.read.runs.where import where

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def _add(parser: Parser) -> None:
    parser.add_argument(
        "kind", choices=("accuracy", "rounds", "sweep", "heat", "recall", "trajectory", "weights", "roc")
    )
    parser.add_argument(
        "--x",
        metavar="KEY",
        help="for sweep: the setting on the horizontal axis, such as partition.alpha; for heat: the columns (attack); "
        "for accuracy and rounds: another column of metrics.csv, such as simulated_time",
    )
    parser.add_argument(
        "--value", metavar="NAME",
        help="for rounds: a column of metrics.csv (test_accuracy); for sweep and heat: as for table (final_accuracy)",
    )  # fmt: skip
    parser.add_argument(
        "--lines",
        metavar="KEY",
        help="the setting with one line, or row, per value; several with commas (aggregator); not for weights",
    )
    parser.add_argument(
        "--panels",
        metavar="KEY",
        help="the setting with one panel per value (attack; for weights: aggregator; for heat: none)",
    )
    parser.add_argument("--band", choices=plots.BANDS, help="spread over seeds (minmax); not for recall, trajectory, "
                        "weights and heat")  # fmt: skip
    parser.add_argument("--output", required=True, metavar="FILE", help="the picture, a .png, .pdf or .svg file")
    shared.add_frame(parser)
    shared.add_conditions(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    runs = shared.load(arguments)
    print(save(_drawn(runs, arguments), arguments.output))
    others = where(runs, arguments.where)["state"]
    others = others[others != "finished"].value_counts().sort_index()
    if len(others):
        warnings.warn(f"not drawn: {', '.join(f'{count} {state}' for state, count in others.items())}", stacklevel=2)


_LEFT_OUT = {
    "accuracy": ("value",),
    "heat": ("band",),
    "recall": ("x", "value", "band"),
    "trajectory": ("x", "value", "band"),
    "roc": ("x", "value"),
    "weights": ("x", "value", "band", "lines"),
}
"""The options that a kind of picture does not take."""


def _drawn(runs: pd.DataFrame, arguments: Namespace) -> Figure:
    """The picture of the chosen kind. Raises ConfigError, also for an option that the kind does not take, and
    NoRuns."""
    if strange := [name for name in _LEFT_OUT.get(arguments.kind, ()) if getattr(arguments, name) is not None]:
        raise ConfigError(f"plot {arguments.kind} takes no --{strange[0]}")
    frame, value, band = shared.frame(arguments), arguments.value, arguments.band or "minmax"
    lines = arguments.lines or "aggregator"
    panels = "attack" if arguments.panels is None else arguments.panels
    x = arguments.x or "round"
    common = {"lines": lines, "panels": panels, "conditions": arguments.where, "frame": frame}
    match arguments.kind:
        case "accuracy" | "rounds":
            return plots.rounds(runs, value or "test_accuracy", **common, band=band, x=x)
        case "sweep":
            if arguments.x is None:
                raise ConfigError("a sweep needs --x, the setting along the axis, such as --x partition.alpha")
            return plots.sweep(runs, arguments.x, value or "final_accuracy", **common, band=band)
        case "heat":
            axes = (lines, arguments.x or "attack", value or "final_accuracy", arguments.panels or "")
            return plots.matrix(runs, *axes, arguments.where, frame)
        case "recall":
            return plots.recall(runs, **common)
        case "trajectory":
            return plots.trajectory(runs, **common)
        case "roc":
            return plots.roc(runs, **common, band=band)
        case _:
            return plots.weights(runs, arguments.panels or "aggregator", arguments.where, frame)


VERB = Verb(
    "plot", "metrics or weights by round, a value by settings, recall per class, or the ROC of weights", _add, _run
)
