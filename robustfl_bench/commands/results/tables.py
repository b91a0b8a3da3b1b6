"""Verbs of ``robustfl-results`` that print tables: a paper's beside its published numbers, or settings of any sweep;
the values chosen by validation; and what differs between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.results.shared import Conditions, Labels
from robustfl_bench.commands.source import RunSource, SheetFormat
from robustfl_bench.commands.verb import Argument, override
from robustfl_bench.read.runs.matching import Index
from robustfl_bench.read.runs.values import KNOWN
from robustfl_bench.read.runs.where import check_name, listed
from robustfl_bench.read.tables import described, sheets
from robustfl_bench.read.tables import diff as difference
from robustfl_bench.read.tables.compare import compare, showing
from robustfl_bench.read.tables.described import PaperTable
from robustfl_bench.read.tables.layout import FORMATS, Look, render, render_sheets
from robustfl_bench.read.tables.pivot import pivot, tuned
from robustfl_bench.read.tables.printed import PaperLayout, arrange


def table(
    name: Annotated[
        str | None,
        Argument(
            "a name from the list command, such as boba/table2_mnist, or a file FILE.yaml[:TABLE]",
            "PAPER/TABLE",
            tab=lambda **_: {**described.tables(), **described.layouts()},
        ),
    ] = None,
    overrides: Annotated[
        Sequence[str], override("override of every cell of a paper's table, such as scale=quick")
    ] = (),
    *,
    rows: Annotated[
        str, Argument("for a sweep: the setting that forms the rows (aggregator), or two as KEY,KEY", "KEY")
    ] = "",
    columns: Annotated[
        str, Argument("for a sweep: the setting that forms the columns (attack), or two as KEY,KEY", "KEY")
    ] = "",
    value: Annotated[
        Sequence[str],
        Argument(
            f"for a sweep: the value to show, repeatable (final_accuracy): {', '.join(KNOWN)}, or any column of "
            "metrics.csv; for a paper's table: last_accuracy or last_error, the mean of ten rounds",
            "NAME",
        ),
    ] = (),
    format: Annotated[str, Argument(choices=FORMATS)] = "text",
    layout: Annotated[
        str,
        Argument(
            "compact: one line per row; paper: the rows, columns and words of the paper's table, such as boba/table2",
            choices=("full", "compact", "paper"),
        ),
    ] = "full",
    versus: Annotated[str, Argument("show differences from this row, with paired 95%% intervals", "ROW")] = "",
    order: Annotated[str, Argument("the rows to put first", "ROW,ROW")] = "",
    no_published: Annotated[bool, Argument("omit the published numbers of a paper's table")] = False,
    caption: Annotated[str, Argument("caption of the LaTeX table (its title)", "LATEX")] = "",
    label: Annotated[str, Argument("label of the LaTeX table, such as tab:attacks", "NAME")] = "",
    width: Annotated[str, Argument("fit the LaTeX table to a column or a page", choices=tuple(sheets.WIDTHS))] = "",
    bare: Annotated[bool, Argument("footnotes of the LaTeX table become comments")] = False,
    labels: Labels = (),
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """A paper's table beside its published numbers, or a pivot of any sweep."""
    of_latex = {"caption": caption, "label": label, "width": width, "bare": bare}
    if format != "latex" and (option := next(filter(of_latex.get, of_latex), "")):
        raise ConfigError(f"--{option} is for a LaTeX table; add --format latex")
    if (caption or label) and len(value) > 1:
        raise ConfigError("--caption and --label are of one table; leave them out, or all but one --value")
    look = Look(layout == "compact", versus, caption, label, width, shared.named(labels), bare)
    if layout == "paper":
        if name is None or rows or columns or versus or order:
            raise ConfigError("--layout paper takes a paper's table, without --rows, --columns, --versus and --order")
        shown, of_paper = _printed(name)
        held = runs.load_any()
        index, filled = Index(held), {}
        for part in shown.tables:
            paper_table = reduce(showing, value, of_paper[part])
            filled[part] = compare(paper_table, held, where, overrides, runs.folder, index)
            if no_published:
                filled[part].forget_published()
        print(render_sheets([arrange(shown, filled, look.names)], format, look), end="")
        return
    if name is None:
        if no_published:
            raise ConfigError("--no-published is for a paper's table; a sweep has no published numbers")
        axes, sweep = (rows or "aggregator", columns or "attack"), runs.load()
        tables = [pivot(sweep, *axes, column, where) for column in value or ["final_accuracy"]]
    elif "=" in name:
        raise ConfigError(f"{name} needs a table's name before it; of a sweep, take --where {name}")
    else:
        paper_table = _described(name)
        if rows or columns:
            raise ConfigError(f"{name} has its rows and columns; leave out --rows and --columns")
        paper_table = reduce(showing, value, paper_table)
        tables = [compare(paper_table, runs.load_any(), where, overrides, results_dir=runs.folder)]
        if no_published:
            tables[0].forget_published()
    for printed in tables:
        printed.put_first([row for row in listed(order) if row])
    print(render(tables, format, look), end="")


def _printed(name: str) -> tuple[PaperLayout, Mapping[str, PaperTable]]:
    """The layout of this name, or of the printed table that a table is part of, of the papers or of a YAML file:
    ``FILE.yaml:LAYOUT``. With all tables of its paper, or of the file."""
    file, _, chosen = name.partition(":")
    if file.endswith((".yaml", ".yml")):
        own = described.read(Path(file))
        layouts, tables, name = own.layouts, own.tables, f"{Path(file).stem}/{chosen}"
    else:
        layouts, tables = described.layouts(), described.tables()
    holding = [layout for layout in layouts.values() if name == layout.name]
    holding += [layout for layout in layouts.values() if name in layout.tables]
    if not holding:
        check_name(name, [*layouts, *tables], "table")
        raise ConfigError(f"{name} has no layout of its paper; these have: {', '.join(layouts) or 'none'}")
    return holding[0], tables


def _described(name: str) -> PaperTable:
    """A table of the papers, or of a YAML file: ``FILE.yaml:TABLE``, or ``FILE.yaml`` if it has only one table."""
    file, _, chosen = name.partition(":")
    if not file.endswith((".yaml", ".yml")):
        if name in described.layouts() and name not in described.tables():
            parts = " or ".join(sorted(described.layouts()[name].tables))
            raise ConfigError(
                f"unknown table {name!r}; did you mean {parts}? --layout paper prints it as the paper does"
            )
        check_name(name, described.tables(), "table")
        return described.tables()[name]
    path = Path(file)
    tables = {full.partition("/")[2]: table for full, table in described.read(path).tables.items()}
    if not chosen and len(tables) != 1:
        raise ConfigError(f"{file} has {len(tables)} tables; name one, {file}:TABLE, of {', '.join(tables) or 'none'}")
    chosen = chosen or next(iter(tables))
    check_name(chosen, tables, "table")
    return tables[chosen]


def tune(
    *,
    over: Annotated[str, Argument("the swept setting, such as lr", "KEY")],
    format: SheetFormat = "text",
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """Each method's value of a swept setting, chosen by validation."""
    print(sheets.FORMATS[format]([tuned(runs.load(), over, where)]), end="")


def diff(
    first: Annotated[str, Argument("a run folder", "RUN")],
    second: Annotated[Sequence[str], override("another run folder, or overrides of robustfl-bench", "RUN|OVERRIDE")],
    *,
    format: SheetFormat = "text",
) -> None:
    """What differs between two runs, or between a run and a command."""
    is_folder = len(second) == 1 and "=" not in second[0]
    other = difference.of_folder(second[0]) if is_folder else difference.of_command(second)
    print(sheets.FORMATS[format]([difference.compare(difference.of_folder(first), other)]), end="")
