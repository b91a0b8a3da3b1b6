"""The command ``robustfl-results``: state of the runs, tables, plots and exports, all read from the run folders."""

from __future__ import annotations

import argparse
import math
import os
import sys
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from robustfl_bench.papers.known import TABLES
from robustfl_bench.results import archive, comparison_formats, plots, records, tables
from robustfl_bench.results.comparison import compare
from robustfl_bench.results.export import tidy
from robustfl_bench.results.formats import FORMATS, render
from robustfl_bench.results.matching import held
from robustfl_bench.results.records import STATES, NoRuns
from robustfl_bench.results.where import ConfigError, check_name, where
from robustfl_bench.results.values import KNOWN

if TYPE_CHECKING:
    import pandas as pd


_RESULTS = "results"


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
    except ConfigError as error:
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
    commands = parser.add_subparsers(required=True, metavar="status|list|table|plot|export", parser_class=_Parser)

    status = commands.add_parser("status", help="how many runs are in which state, and what went wrong")
    status.add_argument("--all", action="store_true", help="list the finished runs too")
    status.set_defaults(run=_status)

    listing = commands.add_parser("list", help="the papers' tables that are known, and how much of each is measured")
    listing.set_defaults(run=_list)

    table = commands.add_parser("table", help="a paper's table beside its published numbers, or a pivot of any sweep")
    table.add_argument("name", nargs="?", metavar="PAPER/TABLE", help="such as boba/table2_mnist; see list")
    table.add_argument("--rows", metavar="KEY", help="of a sweep: setting down the side (aggregator)")
    table.add_argument("--columns", metavar="KEY", help="of a sweep: setting across the top (attack)")
    table.add_argument(
        "--value", action="append", metavar="NAME",
        help=f"of a sweep: what to show, repeatable (final_accuracy): {', '.join(KNOWN)}, or any column of metrics.csv",
    )  # fmt: skip
    table.add_argument("--scale", choices=("paper", "quick"), help="of a paper's table: which runs to show (paper)")
    table.add_argument("--format", choices=FORMATS, default="text")
    table.set_defaults(run=_table)

    plot = commands.add_parser("plot", help="metrics or weights against the round, a value against a setting, recall")
    plot.add_argument("kind", choices=("accuracy", "rounds", "sweep", "recall", "weights"))
    plot.add_argument("--x", metavar="KEY", help="of a sweep: setting along the axis, such as partition.alpha")
    plot.add_argument(
        "--value", metavar="NAME",
        help="of rounds: a column of metrics.csv (test_accuracy); of a sweep: as in table (final_accuracy)",
    )  # fmt: skip
    plot.add_argument("--lines", default="aggregator", metavar="KEY", help="one line per value (%(default)s)")
    plot.add_argument("--panels", default="attack", metavar="KEY", help="one panel per value (%(default)s)")
    plot.add_argument("--band", choices=plots.BANDS, default="minmax", help="spread over seeds, of accuracy and rounds")
    plot.add_argument("--output", required=True, metavar="FILE", help="ends in .png, .pdf or .svg")
    plot.set_defaults(run=_plot)

    export = commands.add_parser("export", help="runs with their settings as one CSV: every round, or a line each")
    output = export.add_mutually_exclusive_group(required=True)
    output.add_argument("--output", metavar="FILE.csv", help="every evaluated round of every run")
    output.add_argument("--summary", metavar="FILE.csv", help="a line for each finished run, to keep: see --from")
    export.set_defaults(run=_export)

    for command in (table, plot, export):
        command.add_argument(
            "--where", action="append", default=[], metavar="KEY=VALUE",
            help="only these runs; repeatable; dataset=mnist, aggregator.num_selected=3, attack=none,ipm",
        )  # fmt: skip
    for command in (listing, table, plot, export):
        command.add_argument(
            "--from", action="append", default=[], metavar="FILE.csv", dest="archives",
            help="runs kept by export --summary, repeatable; with --results-dir beside those of the folder, else alone",
        )  # fmt: skip
    for command in (status, listing, table, plot, export):
        command.add_argument("--results-dir", metavar="DIR", help=f"holds runs/ ({_RESULTS})")
    return parser


def _load(arguments: argparse.Namespace) -> pd.DataFrame:
    """The runs of the folder and the files that were named, or of the usual folder."""
    kept = [archive.read(path) for path in getattr(arguments, "archives", [])]
    if kept and arguments.results_dir is None:
        return archive.join(kept)
    folder = records.load(arguments.results_dir or _RESULTS)
    return archive.join([folder, *kept]) if kept else folder


def _load_any(arguments: argparse.Namespace) -> pd.DataFrame:
    """As ``_load``, but that there is no usual folder yet is no mistake: a paper's table can be shown without runs."""
    try:
        return _load(arguments)
    except NoRuns:
        if arguments.results_dir is not None or arguments.archives:
            raise
        return records.nothing()


def _status(arguments: argparse.Namespace) -> None:
    runs = _load(arguments)
    counts = [f"{count} {state}" for state in STATES if (count := int((runs["state"] == state).sum()))]
    print(f"{len(runs)} runs in {arguments.results_dir or _RESULTS}: {', '.join(counts)}")
    width = max(map(len, runs["run"]))
    for state in STATES:
        if state == "finished" and not arguments.all:
            continue
        for run in runs[runs["state"] == state].to_dict("records"):
            print(f"{state:<10}  {run['run']:<{width}}  {_told(run)}".rstrip())


def _told(run: Mapping[Hashable, Any]) -> str:
    """What to say about a run after its name."""
    if run["state"] == "finished":
        if math.isnan(run["final_accuracy"]):  # numbers were predicted, not classes
            return f"test loss {run['test_loss']:.4g}"
        return f"accuracy {100 * run['final_accuracy']:.1f}%"
    if run["state"] in ("running", "unfinished"):
        return f"{records.text(run['rounds_done'])}/{records.text(run['rounds'])} rounds"
    return str(run["error"])


def _list(arguments: argparse.Namespace) -> None:
    runs = _load_any(arguments)
    configs = held(runs)
    width = max(map(len, TABLES))
    print(f"{'table':<{width}}  compared  cells  title")
    for name, table in TABLES.items():
        found = compare(table, runs, configs=configs)
        print(f"{name:<{width}}  {len(found.judged):>8}  {len(found.cells):>5}  {table.title}")


def _table(arguments: argparse.Namespace) -> None:
    if arguments.name is not None:
        _paper_table(arguments)
        return
    if arguments.scale:
        raise ConfigError("--scale is for a paper's table; of a sweep, take --where scale=quick")
    runs = _load(arguments)
    names = arguments.value or ["final_accuracy"]
    axes = (arguments.rows or "aggregator", arguments.columns or "attack")
    made = [tables.pivot(runs, *axes, name, arguments.where) for name in names]
    print(render(made, arguments.format), end="")


def _paper_table(arguments: argparse.Namespace) -> None:
    check_name(arguments.name, TABLES, "table")
    if arguments.rows or arguments.columns or arguments.value:
        raise ConfigError(f"{arguments.name} has its rows, columns and values; leave out --rows, --columns, --value")
    found = compare(
        TABLES[arguments.name],
        _load_any(arguments),
        arguments.where,
        arguments.scale or "paper",
        results_dir=arguments.results_dir or _RESULTS,
    )
    print(comparison_formats.render(found, arguments.format), end="")


def _plot(arguments: argparse.Namespace) -> None:
    runs = _load(arguments)
    asked = {"lines": arguments.lines, "panels": arguments.panels, "conditions": arguments.where}
    if arguments.kind in ("accuracy", "rounds"):
        value = arguments.value if arguments.kind == "rounds" and arguments.value else "test_accuracy"
        figure = plots.rounds(runs, value, **asked, band=arguments.band)
    elif arguments.kind == "sweep":
        if arguments.x is None:
            raise ConfigError("a sweep needs --x, the setting along the axis, such as --x partition.alpha")
        figure = plots.sweep(runs, arguments.x, arguments.value or "final_accuracy", **asked)
    elif arguments.kind == "weights":
        figure = plots.weights(runs, arguments.panels, arguments.where)
    else:
        figure = plots.recall(runs, **asked)
    print(plots.save(figure, arguments.output))
    _warn_of_others(where(runs, arguments.where))


def _warn_of_others(runs: pd.DataFrame) -> None:
    others = runs.loc[runs["state"] != "finished", "state"].value_counts().sort_index()
    if len(others):
        warnings.warn(f"not drawn: {', '.join(f'{count} {state}' for state, count in others.items())}", stacklevel=2)


def _export(arguments: argparse.Namespace) -> None:
    option, path = ("--output", arguments.output) if arguments.output else ("--summary", arguments.summary)
    if not path.endswith(".csv"):
        raise ConfigError(f"{option} must end in .csv, got {path!r}")
    if arguments.output and arguments.archives:
        raise ConfigError("--from holds no rounds; with --output, name a folder with --results-dir")
    runs = where(_load(arguments), arguments.where)
    if arguments.summary:
        print(f"{path}: {archive.write(runs, path)} runs")
        return
    table = tidy(runs)
    try:
        table.to_csv(path, index=False)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    print(f"{path}: {len(table)} rows")
