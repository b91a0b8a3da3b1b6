"""The command ``robustfl-results``: state of the runs, tables, plots and an export, all read from the run folders."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from robustfl_bench.results import plots, records, tables
from robustfl_bench.results.export import tidy
from robustfl_bench.results.formats import FORMATS, render
from robustfl_bench.results.records import STATES, NoRuns
from robustfl_bench.results.selection import SelectionError, where
from robustfl_bench.results.values import KNOWN

if TYPE_CHECKING:
    import pandas as pd


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and exit code 2, as for every bad argument."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; 0, or 2 for bad arguments, 3 when there are no runs, each with one line on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        with warnings.catch_warnings(record=True) as caught:
            arguments.run(arguments)
        sys.stdout.flush()
        for warning in caught:
            print(f"robustfl-results: {warning.message}", file=sys.stderr)
    except SelectionError as error:
        print(f"robustfl-results: {error}", file=sys.stderr)
        return 2
    except NoRuns as error:
        print(f"robustfl-results: {error}", file=sys.stderr)
        return 3
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="robustfl-results", description="Tables and figures from the run folders of robustfl-bench.")
    commands = parser.add_subparsers(required=True, metavar="status|table|plot|export", parser_class=_Parser)

    status = commands.add_parser("status", help="how many runs are in which state, and what went wrong")
    status.add_argument("--all", action="store_true", help="list the finished runs too")
    status.set_defaults(run=_status)

    table = commands.add_parser("table", help="pivot any sweep: mean (sd) over seeds")
    table.add_argument("--rows", default="aggregator", metavar="KEY", help="setting down the side (%(default)s)")
    table.add_argument("--columns", default="attack", metavar="KEY", help="setting across the top (%(default)s)")
    table.add_argument(
        "--value", action="append", metavar="NAME",
        help=f"what to show, repeatable (final_accuracy): {', '.join(KNOWN)}, or any column of metrics.csv",
    )  # fmt: skip
    table.add_argument("--format", choices=FORMATS, default="text")
    table.set_defaults(run=_table)

    plot = commands.add_parser("plot", help="accuracy against the round, or recall per class")
    plot.add_argument("kind", choices=("accuracy", "recall"))
    plot.add_argument("--lines", default="aggregator", metavar="KEY", help="one line per value (%(default)s)")
    plot.add_argument("--panels", default="attack", metavar="KEY", help="one panel per value (%(default)s)")
    plot.add_argument("--band", choices=plots.BANDS, default="minmax", help="spread over seeds, of accuracy")
    plot.add_argument("--output", required=True, metavar="FILE", help="ends in .png, .pdf or .svg")
    plot.set_defaults(run=_plot)

    export = commands.add_parser("export", help="all runs x rounds, with their settings, as one tidy CSV")
    export.add_argument("--output", required=True, metavar="FILE.csv")
    export.set_defaults(run=_export)

    for command in (table, plot, export):
        command.add_argument(
            "--where", action="append", default=[], metavar="KEY=VALUE",
            help="only these runs; repeatable; dataset=mnist, aggregator.num_selected=3, attack=none,ipm",
        )  # fmt: skip
    for command in (status, table, plot, export):
        command.add_argument("--results-dir", default="results", metavar="DIR", help="holds runs/ (%(default)s)")
    return parser


def _status(arguments: argparse.Namespace) -> None:
    runs = records.load(arguments.results_dir)
    counts = [f"{count} {state}" for state in STATES if (count := int((runs["state"] == state).sum()))]
    print(f"{len(runs)} runs in {arguments.results_dir}: {', '.join(counts)}")
    width = max(map(len, runs["run"]))
    for state in STATES:
        if state == "finished" and not arguments.all:
            continue
        for run in runs[runs["state"] == state].to_dict("records"):
            print(f"{state:<10}  {run['run']:<{width}}  {_told(run)}".rstrip())


def _told(run: Mapping[Hashable, Any]) -> str:
    """What to say about a run after its name."""
    if run["state"] == "finished":
        return f"accuracy {100 * run['final_accuracy']:.1f}%"
    if run["state"] in ("running", "unfinished"):
        return f"{records.text(run['rounds_done'])}/{records.text(run['rounds'])} rounds"
    return str(run["error"])


def _table(arguments: argparse.Namespace) -> None:
    runs = records.load(arguments.results_dir)
    names = arguments.value or ["final_accuracy"]
    made = [tables.pivot(runs, arguments.rows, arguments.columns, name, arguments.where) for name in names]
    print(render(made, arguments.format), end="")


def _plot(arguments: argparse.Namespace) -> None:
    runs = records.load(arguments.results_dir)
    asked = {"lines": arguments.lines, "panels": arguments.panels, "conditions": arguments.where}
    if arguments.kind == "accuracy":
        figure = plots.accuracy(runs, **asked, band=arguments.band)
    else:
        figure = plots.recall(runs, **asked)
    print(plots.save(figure, arguments.output))
    _warn_of_others(where(runs, arguments.where))


def _warn_of_others(runs: pd.DataFrame) -> None:
    others = runs.loc[runs["state"] != "finished", "state"].value_counts().sort_index()
    if len(others):
        warnings.warn(f"not drawn: {', '.join(f'{count} {state}' for state, count in others.items())}", stacklevel=2)


def _export(arguments: argparse.Namespace) -> None:
    runs = where(records.load(arguments.results_dir), arguments.where)
    if not arguments.output.endswith(".csv"):
        raise SelectionError(f"--output must end in .csv, got {arguments.output!r}")
    table = tidy(runs)
    try:
        table.to_csv(arguments.output, index=False)
    except OSError as error:
        raise SelectionError(f"cannot write {arguments.output}: {error.strerror or error}") from error
    print(f"{arguments.output}: {len(table)} rows")
