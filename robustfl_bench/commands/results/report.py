"""``robustfl-results report``: one HTML page with tables, curves, and the runs behind every number."""

from argparse import Namespace
from pathlib import Path

from robustfl_bench.base.console import Parser
from robustfl_bench.base.errors import ConfigError, writable
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.pages.report import report
from robustfl_bench.read.tables.layout import Look
from robustfl_bench.runner.store.writing import write_atomically


def _add(parser: Parser) -> None:
    parser.add_argument(
        "--rows", default="aggregator", metavar="KEY", help="the setting that forms the rows (%(default)s)"
    )
    parser.add_argument(
        "--columns", default="attack", metavar="KEY", help="the setting that forms the columns (%(default)s)"
    )
    parser.add_argument(
        "--value", action="append", default=[], metavar="NAME", help="a value of the table command, repeatable"
    )
    parser.add_argument("--title", default="", metavar="WORDS", help="title of the page")
    parser.add_argument(
        "--versus", metavar="ROW", default="", help="the row from which the others' differences are shown (the first)"
    )
    shared.add_labels(parser)
    parser.add_argument("--output", default="report.html", metavar="FILE.html", help="the page (%(default)s)")
    shared.add_conditions(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    path = Path(arguments.output)
    if path.suffix != ".html":
        raise ConfigError(f"--output must end in .html, got {arguments.output!r}")
    look = Look(versus=arguments.versus, names=shared.labels(arguments))
    axes = arguments.rows, arguments.columns, arguments.value, arguments.where
    page = report(shared.load(arguments), *axes, arguments.title, look)
    with writable(path):
        write_atomically(path, page)
    print(path)


VERB = Verb("report", "one HTML page: tables, curves, and the runs behind every number", _add, _run)
