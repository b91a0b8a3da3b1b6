"""The command ``robustfl-results``: state of the runs, tables, plots and exports, all read from the run folders.

A verb is a typed function, see ``commands.verb``; ``commands.shared`` has the arguments that several verbs take, and
``commands.pictures`` the verbs that draw.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from robustfl_bench.base.console import answer_tab, as_json, counted, printable, say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.grouping import grouped
from robustfl_bench.commands.docs import guides
from robustfl_bench.commands.pictures import figure, plot, report
from robustfl_bench.commands.shared import Conditions, Labels, ResultsFolder, RunSource, SheetFormat, named
from robustfl_bench.commands.verb import Action, Argument, JsonFormat, obeyed, override, parser_of
from robustfl_bench.read.pages.figures import inventory
from robustfl_bench.read.runs import archive, croissant, records
from robustfl_bench.read.runs.matching import Index
from robustfl_bench.read.runs.origins import other_code
from robustfl_bench.read.runs.records import STATES
from robustfl_bench.read.runs.values import KNOWN
from robustfl_bench.read.runs.where import check_name, listed
from robustfl_bench.read.runs.where import where as chosen
from robustfl_bench.read.tables import described, sheets
from robustfl_bench.read.tables import diff as difference
from robustfl_bench.read.tables.compare import compare, showing
from robustfl_bench.read.tables.described import YAML, PaperTable
from robustfl_bench.read.tables.layout import FORMATS, Look, render, render_sheets
from robustfl_bench.read.tables.pivot import pivot, tuned
from robustfl_bench.read.tables.printed import PaperLayout, arrange

_Run = Mapping[Hashable, Any]


def status(
    *,
    all: Annotated[bool, Argument("list every run, the finished ones too")] = False,
    format: JsonFormat = "text",
    results_dir: ResultsFolder = None,
) -> None:
    """The number of runs in each state, and the errors."""
    source = RunSource(results_dir=results_dir)
    runs = source.load()
    counts = {state: count for state in STATES if (count := int((runs["state"] == state).sum()))}
    if format == "json":
        entries = map(_entry, (runs if all else runs[runs["state"] != "finished"]).to_dict("records"))
        print(as_json({"folder": source.folder, "counts": counts, "runs": list(entries)}), end="")
        return
    print(f"{counted(len(runs), 'run')} in {source.folder}: {', '.join(f'{n} {state}' for state, n in counts.items())}")
    lines = []
    for state in STATES:
        if state == "finished" and not all:
            continue
        shown = runs[runs["state"] == state].to_dict("records")
        for group in [[run] for run in shown] if all else _alike(shown):
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            lines.append((state, f"{group[0]['run']}{more}", _result(group[0])))
    width = max((len(name) for _, name, _ in lines), default=0)
    for state, name, result in lines:
        print(printable(f"{state:<10}  {name:<{width}}  {result}".rstrip()))


def _entry(run: _Run) -> dict[str, Any]:
    """A run for a program; ``error`` is null unless the run has one."""
    numbers = {name: run.get(name) for name in ("final_accuracy", "test_loss", "rounds_done", "rounds")}
    return {"run": run["run"], "folder": run["folder"], "state": run["state"], **numbers, "error": run["error"] or None}


def _alike(runs: Sequence[_Run]) -> list[list[_Run]]:
    """The runs of a state; those that failed for the same reason are one group."""
    return [*grouped((_result(run) if run["state"] == "failed" else run["folder"], run) for run in runs).values()]


def _result(run: _Run) -> str:
    """The result of a run, how far it came, or its error."""
    if run["state"] == "finished":
        if math.isnan(run["final_accuracy"]):  # regression: numbers were predicted, not classes
            return f"test loss {run['test_loss']:.4g}"
        return f"accuracy {100 * run['final_accuracy']:.1f}%"
    if run["state"] in ("running", "unfinished"):
        return f"{records.text(run['rounds_done'])}/{records.text(run['rounds'])} rounds"
    return str(run["error"])


def list_(
    name: Annotated[
        str | None,
        Argument(
            "list only names that begin with NAME, with their commands; example: boba/fig",
            "NAME",
            tab=lambda **_: [*described.tables(), *described.figures()],
        ),
    ] = None,
    *,
    format: JsonFormat = "text",
    runs: RunSource,
) -> None:
    """The papers' tables and figures, and how much of each is measured."""
    entries = list(inventory(runs.load_any(), name or ""))
    if not entries:
        check_name(name or "", [*described.tables(), *described.figures()], "table or figure")
    if format == "json":
        print(as_json(list(map(asdict, entries))), end="")
        return
    lines = [["name", "runs done", "cells inside", "compared", "stand-ins", "all", "title"]]
    for entry in entries:
        numbers_of_cells = (entry.inside, entry.compared, entry.stand_ins, entry.cells)
        counts = ["-"] * 4 if entry.cells is None else list(map(str, numbers_of_cells))
        lines.append([entry.name, f"{entry.done}/{entry.runs}", *counts, entry.title])
    *widths, _ = (max(map(len, column)) for column in zip(*lines, strict=True))
    for number, (entry_name, *cells, title) in enumerate(lines):
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join([entry_name.ljust(widths[0]), *numbers, title]))
        for command in entries[number - 1].commands if name and number else ():
            print(f"    {command}")


def export(
    *,
    output: Annotated[
        str | None,
        Argument("write a line for each evaluated round of each run", "FILE.csv", either="lines of a file"),
    ],
    summary: Annotated[
        str | None,
        Argument("write a line for each finished run; --from reads this file", "FILE.csv", either="lines of a file"),
    ],
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """Runs with their settings as one CSV: a line per round or per run."""
    option, path = ("--output", output) if output else ("--summary", str(summary))
    endings = (".csv",) if output else (".csv", ".csv.gz")
    if not path.endswith(endings):
        raise ConfigError(f"{option} must end in {' or '.join(endings)}, got {path!r}")
    if output and runs.archives:
        raise ConfigError("--from holds no rounds; with --output, name a folder with --results-dir")
    table = chosen(runs.load(), where)
    if output:
        print(f"{path}: {archive.write_rounds(table, path)} rows")
        return
    print(f"{path}: {archive.write(table, path)} runs")
    if line := other_code(table[table["state"].isin(archive.KEPT)]):
        print(line)


def publish(
    folder: Annotated[str, Argument("the folder to write", "FOLDER")],
    *,
    url: Annotated[str, Argument("the address that the data set will have", "ADDRESS")],
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """The kept runs as Parquet with Croissant metadata, for OpenML, Hugging Face or Zenodo."""
    named = runs.archives or runs.results_dir is not None
    table = runs.load() if named else archive.join([archive.kept(), archive.kept(arena=True)])
    table = chosen(table, where)
    count = croissant.publish(table, Path(folder), url, guides()["citation"].read_text(encoding="utf-8"))
    print(f"{folder}: {count} runs in {croissant.RUNS}, described in {croissant.METADATA}")


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
            f"for a sweep: the value to show, repeatable (final_accuracy): {', '.join(KNOWN)}, rounds_to_80 (the first "
            "evaluated round with a test accuracy of 80%%), or any column of metrics.csv; for a paper's table: "
            "last_accuracy or last_error, the mean of ten rounds",
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
    if labels and layout != "paper" and format not in sheets.WITH_NAMES:
        raise ConfigError(f"--labels is for {', '.join(sheets.WITH_NAMES)} and --layout paper; add --format markdown")
    if (caption or label) and len(value) > 1:
        raise ConfigError("--caption and --label are of one table; leave them out, or all but one --value")
    look = Look(layout == "compact", versus, caption, label, width, named(labels), bare)
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
    if file.endswith(YAML):
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
    if not file.endswith(YAML):
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


PROGRAM = "robustfl-results"

LABORATORY = {"agreement": "results", "arena": "results", "recommend": "recommend"}
"""The verbs of the laboratory, which an installation can lack, and their modules."""

_OF_LABORATORY = [
    getattr(import_module(f"robustfl_bench.commands.lab.{module}"), verb)
    for verb, module in LABORATORY.items()
    if find_spec("robustfl_bench.lab")
]
VERBS: tuple[Action, ...] = (status, list_, table, *_OF_LABORATORY, tune, plot, figure, report, diff, export, publish)


def main(argv: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code. Warnings are printed at the end, if the verb succeeds."""
    parser = parser_of(PROGRAM, "Tables and figures from the run folders of robustfl-bench.", VERBS, allow=True)
    answer_tab(parser)
    asked = parser.parse_args(argv)
    with warnings.catch_warnings(record=True) as caught:
        code = obeyed(asked.verb, asked, prefix=PROGRAM)
    if not code:
        for warning in caught:
            say(f"{PROGRAM}: {warning.message}")
    return code
