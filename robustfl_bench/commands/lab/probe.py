"""The command ``robustfl-bench probe``: the points of a figure that looks inside a round, measured and kept."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from robustfl_bench.base.console import Parser, answer_tab, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.verb import obeyed
from robustfl_bench.read.pages import figures
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables.described import PaperFigure
from robustfl_bench.read.tables.described import figures as described
from robustfl_bench.runner.config.completion import overrides


def main(arguments: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code."""
    known = {name: figure for name, figure in described().items() if figure.draw in figures.PROBED}
    parser = Parser(
        prog="robustfl-bench probe", description="Measure the points of a figure that looks inside a round."
    )
    parser.add_argument("figure", metavar="PAPER/FIGURE", help=", ".join(known))
    given = parser.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="override of all runs of the figure, such as scale=quick"
    )
    completed(given, overrides)
    parser.add_argument("--output", metavar="FILE.csv", help="file for the points of the figure (PAPER_FIGURE.csv)")
    answer_tab(parser)
    return obeyed(lambda asked: _probe(asked, known), parser.parse_args(arguments))


def _probe(asked: argparse.Namespace, known: Mapping[str, PaperFigure]) -> None:
    check_name(asked.figure, known, "figure")
    path = Path(asked.output or f"{asked.figure.replace('/', '_')}.csv")
    if path.suffix != ".csv":
        raise ConfigError(f"--output must end in .csv, got {str(path)!r}")
    measure(known[asked.figure], asked.overrides, path)
    print(f"{path}; to draw it: robustfl-results figure {asked.figure} --from {path} --output FILE")


def measure(figure: PaperFigure, given: Sequence[str], path: Path) -> None:
    """Write the points of a figure with overrides of its own. Raises ConfigError and DataError."""
    import pandas as pd

    from robustfl_bench.lab.studies.probe import KINDS, runs  # here, as it imports torch

    points = list(KINDS[figure.draw](runs(figure.preset, (*figure.changes, *given))))
    table = pd.DataFrame(points).assign(low=lambda points: points["mean"], high=lambda points: points["mean"])
    figures.write(figure, given, figures.Points(table, " ".join(given)), path)
