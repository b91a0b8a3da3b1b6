"""The command ``robustfl-results``: state of the runs, tables, plots and exports, all read from the run folders."""

from __future__ import annotations

import argparse
import math
import shlex
import warnings
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.arena import claims, page, picture
from robustfl_bench.arena.track import tracks
from robustfl_bench.base.console import Parser, answer_tab, completed, reported, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config.completion import overrides
from robustfl_bench.pages import figures, plots
from robustfl_bench.pages.inventory import inventory
from robustfl_bench.pages.pictures.canvas import SUFFIXES, WIDTHS, Frame, save
from robustfl_bench.pages.report import report
from robustfl_bench.runs import archive, export, records
from robustfl_bench.runs.origins import other_code
from robustfl_bench.runs.records import STATES, NoRuns
from robustfl_bench.runs.values import KNOWN
from robustfl_bench.runs.where import check_name, listed, where
from robustfl_bench.store.folders import UNCOMPOSED
from robustfl_bench.store.writing import write_atomically
from robustfl_bench.tables import described as papers
from robustfl_bench.tables import diff, scorecard, sheets
from robustfl_bench.tables.compare import compare, showing
from robustfl_bench.tables.layout import FORMATS, Look, render
from robustfl_bench.tables.pivot import pivot
from robustfl_bench.tables.tune import tuned

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.tables.table import Table


_RESULTS = "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; 0, or 2 for bad arguments, 3 when there are no runs, each with one line on stderr."""
    parser = _parser()
    answer_tab(parser)
    arguments = parser.parse_args(argv)
    with warnings.catch_warnings(record=True) as caught:
        code = reported(arguments.run, arguments, prefix="robustfl-results")
    if not code:
        for warning in caught:
            say(f"robustfl-results: {warning.message}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="robustfl-results", description="Tables and figures from the run folders of robustfl-bench.")
    commands = parser.add_subparsers(
        required=True,
        metavar="status|list|table|agreement|arena|tune|plot|figure|report|diff|export",
        parser_class=Parser,
    )

    status = commands.add_parser("status", help="the number of runs in each state, and the errors")
    status.add_argument("--all", action="store_true", help="list the finished runs too")
    status.set_defaults(run=_status)

    listing = commands.add_parser("list", help="the papers' tables and figures, and how much of each is measured")
    name = listing.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="list only names that begin with NAME, with their commands; example: boba/fig",
    )
    completed(name, lambda **_: [*papers.tables(), *papers.figures()])
    listing.set_defaults(run=_list)

    table = commands.add_parser("table", help="a paper's table beside its published numbers, or a pivot of any sweep")
    name = table.add_argument(
        "name",
        nargs="?",
        metavar="PAPER/TABLE",
        help="a name from the list command, such as boba/table2_mnist, or a file FILE.yaml[:TABLE]",
    )
    completed(name, lambda **_: papers.tables())
    changes = table.add_argument(
        "overrides",
        nargs="*",
        metavar="OVERRIDE",
        help="override of every cell of a paper's table, such as scale=quick",
    )
    completed(changes, overrides)
    table.add_argument(
        "--rows", metavar="KEY", help="for a sweep: the setting that forms the rows (aggregator), or two as KEY,KEY"
    )
    table.add_argument(
        "--columns", metavar="KEY", help="for a sweep: the setting that forms the columns (attack), or two as KEY,KEY"
    )
    table.add_argument(
        "--value", action="append", metavar="NAME",
        help=f"for a sweep: the value to show, repeatable (final_accuracy): {', '.join(KNOWN)}, "
        "or any column of metrics.csv; for a paper's table: last_accuracy or last_error, the mean of ten rounds",
    )  # fmt: skip
    table.add_argument("--format", choices=FORMATS, default="text")
    table.add_argument("--layout", choices=("full", "compact"), default="full", help="compact: one line per row")
    table.add_argument(
        "--versus", metavar="ROW", default="", help="show differences from this row, with paired 95%% intervals"
    )
    table.add_argument("--order", metavar="ROW,ROW", default="", help="the rows to put first")
    table.add_argument("--no-published", action="store_true", help="omit the published numbers of a paper's table")
    table.add_argument("--caption", default="", metavar="LATEX", help="caption of the LaTeX table (its title)")
    table.add_argument("--label", default="", metavar="NAME", help="label of the LaTeX table, such as tab:attacks")
    table.add_argument("--width", choices=sheets.WIDTHS, default="", help="make the LaTeX table fit a column or a page")
    table.set_defaults(run=_table)

    agreeing = commands.add_parser("agreement", help="how well papers are reproduced, and verdicts on their claims")
    paper = agreeing.add_argument(
        "paper", nargs="?", metavar="PAPER", help="a paper, such as boba, or a file FILE.yaml (all papers)"
    )
    completed(paper, lambda **_: papers.papers())
    agreeing.add_argument("--format", choices=sheets.FORMATS, default="text")
    agreeing.set_defaults(run=_agreement)

    tune = commands.add_parser("tune", help="each method's value of a swept setting, chosen by validation")
    tune.add_argument("--over", required=True, metavar="KEY", help="the swept setting, such as lr")
    tune.add_argument("--format", choices=sheets.FORMATS, default="text")
    tune.set_defaults(run=_tune)

    standing = commands.add_parser("arena", help="every rule under every attack, under one protocol")
    track = standing.add_argument("track", nargs="?", default="digits", help="the track of the arena (%(default)s)")
    completed(track, lambda **_: tracks())
    standing.add_argument("--format", choices=sheets.FORMATS, default="text")
    standing.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="a package whose rules may be imported and tested; repeatable",
    )
    shown = standing.add_mutually_exclusive_group()
    shown.add_argument("--claims", action="store_true", help="show verdicts on the claims of the five papers instead")
    shown.add_argument("--plot", metavar="FILE", help="draw all rules with and without attack instead")
    shown.add_argument("--heat", metavar="FILE", help="draw a heat map of every rule under every attack instead")
    standing.add_argument("--attackers", type=int, metavar="N", help="for --heat: the number of attackers (the fewest)")
    standing.set_defaults(run=_arena)

    plot = commands.add_parser("plot", help="metrics or weights by round, a value by settings, or recall per class")
    plot.add_argument("kind", choices=("accuracy", "rounds", "sweep", "heat", "recall", "trajectory", "weights"))
    plot.add_argument(
        "--x",
        metavar="KEY",
        help="for sweep: the setting on the horizontal axis, such as partition.alpha; for heat: the columns (attack)",
    )
    plot.add_argument(
        "--value", metavar="NAME",
        help="for rounds: a column of metrics.csv (test_accuracy); for sweep and heat: as for table (final_accuracy)",
    )  # fmt: skip
    plot.add_argument(
        "--lines",
        default="aggregator",
        metavar="KEY",
        help="the setting with one line, or row, per value (%(default)s)",
    )
    plot.add_argument(
        "--panels",
        metavar="KEY",
        help="the setting with one panel per value (attack; for weights: aggregator; for heat: none)",
    )
    plot.add_argument("--band", choices=plots.BANDS, default="minmax", help="spread over seeds (%(default)s)")
    plot.add_argument("--output", required=True, metavar="FILE", help="the picture, a .png, .pdf or .svg file")
    plot.set_defaults(run=_plot)

    figure = commands.add_parser("figure", help="a paper's figure; without a name, the list of figures")
    name = figure.add_argument("name", nargs="?", metavar="PAPER/FIGURE", help="a figure, such as boba/fig12")
    completed(name, lambda **_: papers.figures())
    changes = figure.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="override of all runs of the figure, such as scale=quick"
    )
    completed(changes, overrides)
    figure.add_argument(
        "--output", action="append", default=[], metavar="FILE",
        help="the picture, a .png, .pdf or .svg file, or the points that it shows, a .csv file; repeatable",
    )  # fmt: skip
    figure.set_defaults(run=_figure)

    for command in (plot, figure):
        command.add_argument(
            "--width", choices=WIDTHS, default="", help="width in a paper: 3.3 or 6.9 inches (depends on the panels)"
        )
        command.add_argument("--title", metavar="WORDS", help='title of the picture; "" for none')
        command.add_argument(
            "--labels", action="append", default=[], metavar="NAME=WORDS",
            help='other words for a name, repeatable: boba=Ours, "x=Share of attackers", "y=Accuracy [%%]"',
        )  # fmt: skip
        command.add_argument("--ylim", metavar="LOW,HIGH", help="limits of the vertical axis")

    page = commands.add_parser("report", help="one HTML page: tables, curves, and the runs behind every number")
    page.add_argument(
        "--rows", default="aggregator", metavar="KEY", help="the setting that forms the rows (%(default)s)"
    )
    page.add_argument(
        "--columns", default="attack", metavar="KEY", help="the setting that forms the columns (%(default)s)"
    )
    page.add_argument(
        "--value", action="append", default=[], metavar="NAME", help="a value of the table command, repeatable"
    )
    page.add_argument("--output", default="report.html", metavar="FILE.html", help="the page (%(default)s)")
    page.set_defaults(run=_report)

    differing = commands.add_parser("diff", help="what differs between two runs, or between a run and a command")
    differing.add_argument("first", metavar="RUN", help="a run folder")
    second = differing.add_argument(
        "second", metavar="RUN|OVERRIDE", nargs="+", help="another run folder, or overrides of robustfl-bench"
    )
    completed(second, overrides)
    differing.add_argument("--format", choices=sheets.FORMATS, default="text")
    differing.set_defaults(run=_diff)

    exporting = commands.add_parser("export", help="runs with their settings as one CSV: a line per round or per run")
    output = exporting.add_mutually_exclusive_group(required=True)
    output.add_argument("--output", metavar="FILE.csv", help="write a line for each evaluated round of each run")
    output.add_argument(
        "--summary", metavar="FILE.csv", help="write a line for each finished run; --from reads this file"
    )
    exporting.set_defaults(run=_export)

    for command in (table, tune, plot, page, exporting):
        condition = command.add_argument(
            "--where", action="append", default=[], metavar="KEY=VALUE",
            help="use only these runs, repeatable: dataset=mnist, aggregator.num_selected=3, attack=none,ipm",
        )  # fmt: skip
        completed(condition, overrides)
    for command in (listing, table, agreeing, standing, tune, plot, figure, page, exporting):
        command.add_argument(
            "--from", action="append", default=[], metavar="FILE.csv", dest="archives",
            help="read runs from a file of export --summary, repeatable; --results-dir adds the runs of a folder",
        )  # fmt: skip
    for command in (status, listing, table, agreeing, standing, tune, plot, figure, page, exporting):
        command.add_argument(
            "--results-dir", metavar="DIR", help=f"the results folder, which contains runs/ ({_RESULTS})"
        )
    return parser


def _load(arguments: argparse.Namespace) -> pd.DataFrame:
    """The runs of the folder and the files that were named, or of the usual folder."""
    kept = [archive.read(path) for path in getattr(arguments, "archives", [])]
    if kept and arguments.results_dir is None:
        return archive.join(kept)
    folder = records.load(arguments.results_dir or _RESULTS)
    return archive.join([folder, *kept]) if kept else folder


def _load_any(arguments: argparse.Namespace, of_arena: bool = False) -> pd.DataFrame:
    """As ``_load``; with no folder or file named, the usual one, if any, and the runs that come with the package:
    those of papers, or those of the arena.

    Of a run, a finished folder comes before a kept result, which comes before an unfinished folder.
    """
    if arguments.results_dir is not None or arguments.archives:
        return _load(arguments)
    try:
        runs = records.load(_RESULTS)
    except NoRuns:
        runs = records.nothing()
    ended = runs["state"].isin(archive.KEPT)
    return archive.join([runs[ended], archive.kept(of_arena), runs[~ended]])


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
    """The text on a run after its name."""
    if run["state"] == "finished":
        if math.isnan(run["final_accuracy"]):  # regression: numbers were predicted, not classes
            return f"test loss {run['test_loss']:.4g}"
        return f"accuracy {100 * run['final_accuracy']:.1f}%"
    if run["state"] in ("running", "unfinished"):
        return f"{records.text(run['rounds_done'])}/{records.text(run['rounds'])} rounds"
    if run["run"].startswith(f"{UNCOMPOSED}-"):  # the corrected run has another folder
        return f"{run['error']}; when that is mended: rm -r {shlex.quote(run['folder'])}"
    return str(run["error"])


def _list(arguments: argparse.Namespace) -> None:
    entries = list(inventory(_load_any(arguments), arguments.name or ""))
    if not entries:
        check_name(arguments.name, [*papers.tables(), *papers.figures()], "table or figure")
    lines = [["name", "runs done", "cells inside", "compared", "all", "title"]]
    for entry in entries:
        told = ["-"] * 3 if entry.cells is None else [str(n) for n in (entry.inside, entry.compared, entry.cells)]
        lines.append([entry.name, f"{entry.done}/{entry.runs}", *told, entry.title])
    *widths, _ = (max(map(len, column)) for column in zip(*lines, strict=True))
    for number, (name, *cells, title) in enumerate(lines):
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join([name.ljust(widths[0]), *numbers, title]))
        for command in entries[number - 1].commands if arguments.name and number else ():
            print(f"    {command}")


def _table(arguments: argparse.Namespace) -> None:
    if arguments.name is not None and "=" in arguments.name:
        raise ConfigError(f"{arguments.name} needs a table's name before it; of a sweep, take --where {arguments.name}")
    if arguments.name is not None:
        _paper_table(arguments)
        return
    runs = _load(arguments)
    names = arguments.value or ["final_accuracy"]
    axes = (arguments.rows or "aggregator", arguments.columns or "attack")
    made = [pivot(runs, *axes, name, arguments.where) for name in names]
    _print(made, arguments)


def _print(made: Sequence[Table], arguments: argparse.Namespace) -> None:
    """The tables as asked for."""
    for table in made:
        table.put_first([name for name in listed(arguments.order) if name])
    compact = arguments.layout == "compact"
    look = Look(compact, arguments.versus, arguments.caption, arguments.label, arguments.width)
    print(render(made, arguments.format, look), end="")


def _paper_table(arguments: argparse.Namespace) -> None:
    table = _described(arguments.name)
    if arguments.rows or arguments.columns:
        raise ConfigError(f"{arguments.name} has its rows and columns; leave out --rows and --columns")
    for name in arguments.value or ():
        table = showing(table, name)
    runs, folder = _load_any(arguments), arguments.results_dir or _RESULTS
    made = compare(table, runs, arguments.where, arguments.overrides, results_dir=folder)
    if arguments.no_published:
        made.forget_published()
    _print([made], arguments)


def _described(name: str) -> papers.PaperTable:
    """A table of the papers, or of a YAML file: ``FILE.yaml:TABLE``, or ``FILE.yaml`` if it has only one table."""
    file, _, chosen = name.partition(":")
    if not file.endswith((".yaml", ".yml")):
        check_name(name, papers.tables(), "table")
        return papers.tables()[name]
    path = Path(file)
    known = {full.partition("/")[2]: table for full, table in papers.read(path).tables.items()}
    if not chosen and len(known) != 1:
        raise ConfigError(f"{file} has {len(known)} tables; name one, {file}:TABLE, of {', '.join(known) or 'none'}")
    chosen = chosen or next(iter(known))
    check_name(chosen, known, "table")
    return known[chosen]


def _agreement(arguments: argparse.Namespace) -> None:
    made = scorecard.made(_load_any(arguments), arguments.paper)
    print(sheets.FORMATS[arguments.format](made), end="")


def _tune(arguments: argparse.Namespace) -> None:
    made = tuned(_load(arguments), arguments.over, arguments.where)
    print(sheets.FORMATS[arguments.format]([made]), end="")


def _arena(arguments: argparse.Namespace) -> None:
    if arguments.attackers is not None and arguments.heat is None:
        raise ConfigError("--attackers needs --heat; all else shows every number of them")
    runs, track = _load_any(arguments, of_arena=True), arguments.track
    if arguments.plot is not None:
        print(save(picture.standing(runs, track), arguments.plot, "--plot"))
    elif arguments.heat is not None:
        print(save(picture.attacks(runs, track, arguments.attackers), arguments.heat, "--heat"))
    else:
        made = claims.sheets(runs, track) if arguments.claims else page.sheets(runs, track, arguments.allow)
        print(sheets.FORMATS[arguments.format](made), end="")


def _diff(arguments: argparse.Namespace) -> None:
    given = arguments.second
    second = diff.made(given[0]) if len(given) == 1 and "=" not in given[0] else diff.wanted(given)
    print(sheets.FORMATS[arguments.format]([diff.compare(diff.made(arguments.first), second)]), end="")


def _plot(arguments: argparse.Namespace) -> None:
    runs, frame = _load(arguments), _frame(arguments)
    panels = "attack" if arguments.panels is None else arguments.panels
    asked = {"lines": arguments.lines, "panels": panels, "conditions": arguments.where, "frame": frame}
    if arguments.kind in ("accuracy", "rounds"):
        value = arguments.value if arguments.kind == "rounds" and arguments.value else "test_accuracy"
        drawn = plots.rounds(runs, value, **asked, band=arguments.band)
    elif arguments.kind == "sweep":
        if arguments.x is None:
            raise ConfigError("a sweep needs --x, the setting along the axis, such as --x partition.alpha")
        drawn = plots.sweep(runs, arguments.x, arguments.value or "final_accuracy", **asked, band=arguments.band)
    elif arguments.kind == "heat":
        axes = (arguments.lines, arguments.x or "attack", arguments.value or "final_accuracy", arguments.panels or "")
        drawn = plots.matrix(runs, *axes, arguments.where, frame)
    elif arguments.kind == "weights":
        drawn = plots.weights(runs, arguments.panels or "aggregator", arguments.where, frame)
    else:
        drawn = {"recall": plots.recall, "trajectory": plots.trajectory}[arguments.kind](runs, **asked)
    print(save(drawn, arguments.output))
    _warn_of_others(where(runs, arguments.where))


def _figure(arguments: argparse.Namespace) -> None:
    known, archived = papers.figures(), list(arguments.archives)
    kept = [Path(name) for name in archived if figures.shown_by(Path(name))]
    arguments.archives = [name for name in archived if Path(name) not in kept]
    runs = records.nothing() if kept and not arguments.archives else _load_any(arguments)
    kept = kept or [*archive.kept_points()]
    if arguments.name is None:
        _list_figures(runs, kept)
        return
    check_name(arguments.name, known, "figure")
    for output in arguments.output:
        if Path(output).suffix not in (*SUFFIXES, ".csv"):
            raise ConfigError(f"--output must end in {', '.join((*SUFFIXES, '.csv'))}, got {output!r}")
    if not arguments.output:
        raise ConfigError(f"{arguments.name} needs --output FILE, such as {arguments.name.replace('/', '_')}.png")
    figure, frame, given = known[arguments.name], _frame(arguments), arguments.overrides
    shown = figures.points(figure, runs, given, kept, arguments.results_dir or _RESULTS)
    for output in map(Path, arguments.output):
        if output.suffix == ".csv":
            figures.write(figure, given, shown, output)
            print(output)
        else:
            print(save(figures.draw(figure, shown, frame), output))
    for line in shown.missing:
        warnings.warn(line, stacklevel=2)


def _list_figures(runs: pd.DataFrame, kept: Sequence[Path]) -> None:
    """Every figure, how many of its runs are there, and the overrides of which points are kept."""
    shown = [found for path in kept if (found := figures.shown_by(path))]
    print(f"{'name':<20}  {'runs done':>9}  title")
    for entry in inventory(runs, known=papers.figures()):
        points = [" ".join(sorted(given)) or "as published" for name, given in shown if name == entry.name]
        told = f"; points kept: {', '.join(points)}" if points else ""
        done = "-" if entry.probed else f"{entry.done}/{entry.runs}"
        print(f"{entry.name:<20}  {done:>9}  {entry.title}{told}")


def _frame(arguments: argparse.Namespace) -> Frame:
    """The format of a picture, from the options. Raises ConfigError."""
    labels = {}
    for given in arguments.labels:
        name, equals, words = given.partition("=")
        if not equals:
            raise ConfigError(f"--labels takes NAME=WORDS, got {given!r}")
        labels[name] = words
    limits = None
    if arguments.ylim is not None:
        try:
            low, high = map(float, arguments.ylim.split(","))
        except ValueError:
            low, high = math.nan, math.nan
        if not -math.inf < low < high < math.inf:
            raise ConfigError(f"--ylim takes two numbers, LOW,HIGH, got {arguments.ylim!r}")
        limits = low, high
    return Frame(arguments.width, arguments.title, labels, limits)


def _warn_of_others(runs: pd.DataFrame) -> None:
    others = runs.loc[runs["state"] != "finished", "state"].value_counts().sort_index()
    if len(others):
        warnings.warn(f"not drawn: {', '.join(f'{count} {state}' for state, count in others.items())}", stacklevel=2)


def _report(arguments: argparse.Namespace) -> None:
    path = Path(arguments.output)
    if path.suffix != ".html":
        raise ConfigError(f"--output must end in .html, got {arguments.output!r}")
    made = report(_load(arguments), arguments.rows, arguments.columns, arguments.value, arguments.where)
    try:
        write_atomically(path, made)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    print(path)


def _export(arguments: argparse.Namespace) -> None:
    option, path = ("--output", arguments.output) if arguments.output else ("--summary", arguments.summary)
    endings = (".csv",) if arguments.output else (".csv", ".csv.gz")
    if not path.endswith(endings):
        raise ConfigError(f"{option} must end in {' or '.join(endings)}, got {path!r}")
    if arguments.output and arguments.archives:
        raise ConfigError("--from holds no rounds; with --output, name a folder with --results-dir")
    runs = where(_load(arguments), arguments.where)
    if arguments.summary:
        print(f"{path}: {archive.write(runs, path)} runs")
        if told := other_code(runs[runs["state"].isin(archive.KEPT)]):
            print(told)
        return
    print(f"{path}: {export.write(runs, path)} rows")
