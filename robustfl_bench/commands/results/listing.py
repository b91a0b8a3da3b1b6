"""``robustfl-results list``: the papers' tables and figures, and how many runs of each exist."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser, completed
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.pages.inventory import inventory
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import described


def _add(parser: Parser) -> None:
    name = parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="list only names that begin with NAME, with their commands; example: boba/fig",
    )
    completed(name, lambda **_: [*described.tables(), *described.figures()])
    add_format(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    entries = list(inventory(shared.load_any(arguments), arguments.name or ""))
    if not entries:
        check_name(arguments.name, [*described.tables(), *described.figures()], "table or figure")
    if arguments.format == "json":
        print(as_json(list(map(asdict, entries))), end="")
        return
    lines = [["name", "runs done", "cells inside", "compared", "stand-ins", "all", "title"]]
    for entry in entries:
        numbers_of_cells = (entry.inside, entry.compared, entry.stand_ins, entry.cells)
        counts = ["-"] * 4 if entry.cells is None else list(map(str, numbers_of_cells))
        lines.append([entry.name, f"{entry.done}/{entry.runs}", *counts, entry.title])
    *widths, _ = (max(map(len, column)) for column in zip(*lines, strict=True))
    for number, (name, *cells, title) in enumerate(lines):
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join([name.ljust(widths[0]), *numbers, title]))
        for command in entries[number - 1].commands if arguments.name and number else ():
            print(f"    {command}")


VERB = Verb("list", "the papers' tables and figures, and how much of each is measured", _add, _run)
