"""``robustfl-results figure``: a paper's figure as a picture or as its points; without a name, the list of figures."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.read.pages import figures
from robustfl_bench.read.pages.inventory import inventory
from robustfl_bench.read.pages.pictures.canvas import SUFFIXES, save
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import described
from robustfl_bench.runner.config.completion import overrides

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (*SUFFIXES, ".csv")


def _add(parser: Parser) -> None:
    name = parser.add_argument("name", nargs="?", metavar="PAPER/FIGURE", help="a figure, such as boba/fig12")
    completed(name, lambda **_: described.figures())
    changes = parser.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="override of all runs of the figure, such as scale=quick"
    )
    completed(changes, overrides)
    parser.add_argument(
        "--output", action="append", default=[], metavar="FILE",
        help="the picture, a .png, .pdf or .svg file, or the points that it shows, a .csv file; repeatable",
    )  # fmt: skip
    add_format(parser)
    shared.add_frame(parser)
    shared.add_runs(parser)


def _run(arguments: Namespace) -> None:
    name, outputs = arguments.name, list(map(Path, arguments.output))
    kept = [Path(file) for file in arguments.archives if figures.shown_by(Path(file))]
    arguments.archives = [file for file in arguments.archives if Path(file) not in kept]
    runs = records.nothing() if kept and not arguments.archives else shared.load_any(arguments)
    kept = kept or [*archive.kept_points()]
    if name is None:
        _list(runs, kept, arguments.format)
        return
    check_name(name, described.figures(), "figure")
    for output in outputs:
        if output.suffix not in _SUFFIXES:
            raise ConfigError(f"--output must end in {', '.join(_SUFFIXES)}, got {str(output)!r}")
    if not outputs:
        raise ConfigError(f"{name} needs --output FILE, such as {name.replace('/', '_')}.png")
    if arguments.format != "text":
        raise ConfigError("--format is for the list of figures; a figure's format is that of its --output")
    figure, frame, changes = described.figures()[name], shared.frame(arguments), arguments.overrides
    points = figures.points(figure, runs, changes, kept, shared.folder_of(arguments), arguments.unsealed)
    for output in outputs:
        if output.suffix == ".csv":
            figures.write(figure, changes, points, output)
            print(output)
        else:
            print(save(figures.draw(figure, points, frame), output))
    for line in points.missing:
        warnings.warn(line, stacklevel=2)


def _list(runs: pd.DataFrame, kept: Sequence[Path], form: str) -> None:
    """Print every figure, how many of its runs exist, and the overrides of which points are kept."""
    drawn = list(filter(None, map(figures.shown_by, kept)))
    if form == "json":
        print(as_json(list(map(asdict, inventory(runs, known=described.figures())))), end="")
        return
    print(f"{'name':<20}  {'runs done':>9}  title")
    for entry in inventory(runs, known=described.figures()):
        points = [" ".join(sorted(changes)) or "as published" for name, changes in drawn if name == entry.name]
        note = f"; points kept: {', '.join(points)}" if points else ""
        done = "-" if entry.probed else f"{entry.done}/{entry.runs}"
        print(f"{entry.name:<20}  {done:>9}  {entry.title}{note}")


VERB = Verb("figure", "a paper's figure; without a name, the list of figures", _add, _run)
