"""``robustfl-results table``: a paper's table beside its published numbers, or two settings of any sweep."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from robustfl_bench.base.console import Parser, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.runs.values import KNOWN
from robustfl_bench.read.runs.where import check_name, listed
from robustfl_bench.read.tables import described, sheets
from robustfl_bench.read.tables.compare import compare, showing
from robustfl_bench.read.tables.described import PaperTable
from robustfl_bench.read.tables.layout import FORMATS, Look, render
from robustfl_bench.read.tables.pivot import pivot
from robustfl_bench.read.tables.table import Table
from robustfl_bench.runner.config.completion import overrides


def _add(parser: Parser) -> None:
    name = parser.add_argument(
        "name",
        nargs="?",
        metavar="PAPER/TABLE",
        help="a name from the list command, such as boba/table2_mnist, or a file FILE.yaml[:TABLE]",
    )
    completed(name, lambda **_: described.tables())
    changes = parser.add_argument(
        "overrides",
        nargs="*",
        metavar="OVERRIDE",
        help="override of every cell of a paper's table, such as scale=quick",
    )
    completed(changes, overrides)
    parser.add_argument(
        "--rows", metavar="KEY", help="for a sweep: the setting that forms the rows (aggregator), or two as KEY,KEY"
    )
    parser.add_argument(
        "--columns", metavar="KEY", help="for a sweep: the setting that forms the columns (attack), or two as KEY,KEY"
    )
    parser.add_argument(
        "--value", action="append", metavar="NAME",
        help=f"for a sweep: the value to show, repeatable (final_accuracy): {', '.join(KNOWN)}, "
        "or any column of metrics.csv; for a paper's table: last_accuracy or last_error, the mean of ten rounds",
    )  # fmt: skip
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--layout", choices=("full", "compact"), default="full", help="compact: one line per row")
    parser.add_argument(
        "--versus", metavar="ROW", default="", help="show differences from this row, with paired 95%% intervals"
    )
    parser.add_argument("--order", metavar="ROW,ROW", default="", help="the rows to put first")
    parser.add_argument("--no-published", action="store_true", help="omit the published numbers of a paper's table")
    parser.add_argument("--caption", default="", metavar="LATEX", help="caption of the LaTeX table (its title)")
    parser.add_argument("--label", default="", metavar="NAME", help="label of the LaTeX table, such as tab:attacks")
    parser.add_argument("--width", choices=sheets.WIDTHS, default="", help="fit the LaTeX table to a column or a page")
    parser.add_argument("--bare", action="store_true", help="footnotes of the LaTeX table become comments")
    shared.add_labels(parser)
    shared.add_conditions(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    of_latex = [name for name in ("caption", "label", "width", "bare") if getattr(arguments, name)]
    if of_latex and arguments.format != "latex":
        raise ConfigError(f"--{of_latex[0]} is for a LaTeX table; add --format latex")
    if (arguments.caption or arguments.label) and len(arguments.value or ()) > 1:
        raise ConfigError("--caption and --label are of one table; leave them out, or all but one --value")
    if arguments.no_published and arguments.name is None:
        raise ConfigError("--no-published is for a paper's table; a sweep has no published numbers")
    if arguments.name is None:
        _print(_of_sweep(arguments), arguments)
    elif "=" in arguments.name:
        raise ConfigError(f"{arguments.name} needs a table's name before it; of a sweep, take --where {arguments.name}")
    else:
        _print([_of_paper(arguments)], arguments)


def _of_sweep(arguments: Namespace) -> list[Table]:
    """A table for each of the values."""
    runs = shared.load(arguments)
    names = arguments.value or ["final_accuracy"]
    axes = (arguments.rows or "aggregator", arguments.columns or "attack")
    return [pivot(runs, *axes, name, arguments.where) for name in names]


def _of_paper(arguments: Namespace) -> Table:
    paper_table = _described(arguments.name)
    if arguments.rows or arguments.columns:
        raise ConfigError(f"{arguments.name} has its rows and columns; leave out --rows and --columns")
    for name in arguments.value or ():
        paper_table = showing(paper_table, name)
    runs, folder = shared.load_any(arguments), shared.folder_of(arguments)
    table = compare(paper_table, runs, arguments.where, arguments.overrides, results_dir=folder)
    if arguments.no_published:
        table.forget_published()
    return table


def _described(name: str) -> PaperTable:
    """A table of the papers, or of a YAML file: ``FILE.yaml:TABLE``, or ``FILE.yaml`` if it has only one table."""
    file, _, chosen = name.partition(":")
    if not file.endswith((".yaml", ".yml")):
        check_name(name, described.tables(), "table")
        return described.tables()[name]
    path = Path(file)
    tables = {full.partition("/")[2]: table for full, table in described.read(path).tables.items()}
    if not chosen and len(tables) != 1:
        raise ConfigError(f"{file} has {len(tables)} tables; name one, {file}:TABLE, of {', '.join(tables) or 'none'}")
    chosen = chosen or next(iter(tables))
    check_name(chosen, tables, "table")
    return tables[chosen]


def _print(tables: Sequence[Table], arguments: Namespace) -> None:
    """Print the tables in the chosen order, layout and format."""
    for table in tables:
        table.put_first([name for name in listed(arguments.order) if name])
    compact = arguments.layout == "compact"
    words = shared.labels(arguments)
    look = Look(compact, arguments.versus, arguments.caption, arguments.label, arguments.width, words, arguments.bare)
    print(render(tables, arguments.format, look), end="")


VERB = Verb("table", "a paper's table beside its published numbers, or a pivot of any sweep", _add, _run)
