"""Verbs of ``robustfl-results`` that draw: pictures of any runs, a paper's figure, and a page for a browser."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.console import as_json
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.commands.shared import Conditions, Labels, PictureFormat, RunSource, named
from robustfl_bench.commands.verb import Argument, JsonFormat, override
from robustfl_bench.read.pages import figures, plots
from robustfl_bench.read.pages.figures import inventory
from robustfl_bench.read.pages.pictures.canvas import SUFFIXES, Figure, check_format, save
from robustfl_bench.read.pages.report import report as page_of
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.runs.where import where as chosen
from robustfl_bench.read.tables import described
from robustfl_bench.read.tables.layout import Look
from robustfl_bench.runner.store.writing import write_output

_SUFFIXES = (*SUFFIXES, ".csv")


@dataclass(frozen=True)
class Plot:
    """A picture of runs: metrics or weights by round, a value by settings, recall per class, or ROC."""

    kind: Annotated[
        str,
        Argument(choices=("accuracy", "rounds", "sweep", "heat", "recall", "trajectory", "weights", "roc")),
    ]
    _: KW_ONLY
    x: Annotated[
        str | None,
        Argument(
            "for sweep: the setting on the horizontal axis, such as partition.alpha; for heat: the columns (attack); "
            "for accuracy and rounds: another column of metrics.csv, such as simulated_time",
            "KEY",
        ),
    ] = None
    value: Annotated[
        str | None,
        Argument(
            "for rounds: a column of metrics.csv (test_accuracy); for sweep and heat: as for table (final_accuracy)",
            "NAME",
        ),
    ] = None
    lines: Annotated[
        str | None,
        Argument(
            "the setting with one line, or row, per value; several with commas (aggregator); not for weights", "KEY"
        ),
    ] = None
    panels: Annotated[
        str | None,
        Argument("the setting with one panel per value (attack; for weights: aggregator; for heat: none)", "KEY"),
    ] = None
    band: Annotated[
        str | None,
        Argument(
            "spread over seeds (minmax); not for recall, trajectory, weights and heat", choices=tuple(plots.BANDS)
        ),
    ] = None


def plot(
    drawn: Plot,
    *,
    output: Annotated[str, Argument("the picture, a .png, .pdf or .svg file", "FILE")],
    look: PictureFormat,
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """Metrics or weights by round, a value by settings, recall per class, or the ROC of weights."""
    check_format(output)
    table = runs.load()
    print(save(_drawn(table, drawn, look, where), output))
    others = chosen(table, where)["state"]
    others = others[others != "finished"].value_counts().sort_index()
    if len(others):
        warnings.warn(f"not drawn: {', '.join(f'{count} {state}' for state, count in others.items())}", stacklevel=2)


_LEFT_OUT = {
    "accuracy": ("value",),
    "heat": ("band",),
    "recall": ("x", "value", "band"),
    "trajectory": ("x", "value", "band"),
    "roc": ("x", "value"),
    "weights": ("x", "value", "band", "lines"),
}
"""The options that a kind of picture does not take."""


def _drawn(runs: pd.DataFrame, asked: Plot, look: PictureFormat, conditions: Sequence[str]) -> Figure:
    """The picture of the chosen kind. Raises ConfigError, also for an option that the kind does not take, and
    NoRuns."""
    if strange := [name for name in _LEFT_OUT.get(asked.kind, ()) if getattr(asked, name) is not None]:
        raise ConfigError(f"plot {asked.kind} takes no --{strange[0]}")
    lines, panels = asked.lines or "aggregator", "attack" if asked.panels is None else asked.panels
    shown = plots.ShownRuns(lines, panels, conditions, asked.band or "minmax", look.frame)
    match asked.kind:
        case "accuracy" | "rounds":
            return plots.rounds(runs, asked.value or "test_accuracy", shown, asked.x or "round")
        case "sweep":
            if asked.x is None:
                raise ConfigError("a sweep needs --x, the setting along the axis, such as --x partition.alpha")
            return plots.sweep(runs, asked.x, asked.value or "final_accuracy", shown)
        case "heat":
            shown = replace(shown, panels=asked.panels or "")
            return plots.matrix(runs, asked.x or "attack", asked.value or "final_accuracy", shown)
        case "recall":
            return plots.recall(runs, shown)
        case "trajectory":
            return plots.trajectory(runs, shown)
        case "roc":
            return plots.roc(runs, shown)
        case _:
            return plots.weights(runs, replace(shown, panels=asked.panels or "aggregator"))


def figure(
    name: Annotated[
        str | None,
        Argument("a figure, such as boba/fig12", "PAPER/FIGURE", tab=lambda **_: described.figures()),
    ] = None,
    overrides: Annotated[Sequence[str], override("override of all runs of the figure, such as scale=quick")] = (),
    *,
    output: Annotated[
        Sequence[Path],
        Argument(
            "the picture, a .png, .pdf or .svg file, or the points that it shows, a .csv file; repeatable", "FILE"
        ),
    ] = (),
    format: JsonFormat = "text",
    look: PictureFormat,
    runs: RunSource,
) -> None:
    """A paper's figure; without a name, the list of figures."""
    if name is not None:
        check_name(name, described.figures(), "figure")
        for path in output:
            if path.suffix not in _SUFFIXES:
                raise ConfigError(f"--output must end in {', '.join(_SUFFIXES)}, got {str(path)!r}")
        if not output:
            raise ConfigError(f"{name} needs --output FILE, such as {name.replace('/', '_')}.png")
        if format != "text":
            raise ConfigError("--format is for the list of figures; a figure's format is that of its --output")
    frame = look.frame
    kept = [Path(file) for file in runs.archives if figures.shown_by(Path(file))]
    rest = replace(runs, archives=[file for file in runs.archives if Path(file) not in kept])
    table = records.nothing() if kept and not rest.archives else rest.load_any()
    shipped = [*archive.kept_points()]
    if name is None:
        _list(table, kept or shipped, format)
        return
    paper_figure = described.figures()[name]
    if not kept and (paper_figure.draw in figures.PROBED or (runs.results_dir is None and not runs.archives)):
        kept = shipped  # whoever names a folder or a file gets the picture of that, or is told what it lacks
    points = figures.points(paper_figure, table, overrides, kept, runs.folder, runs.unsealed)
    for path in output:
        if path.suffix == ".csv":
            figures.write(paper_figure, overrides, points, path)
            print(path)
        else:
            print(save(figures.draw(paper_figure, points, frame), path))
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


def report(
    *,
    rows: Annotated[str, Argument("the setting that forms the rows (%(default)s)", "KEY")] = "aggregator",
    columns: Annotated[str, Argument("the setting that forms the columns (%(default)s)", "KEY")] = "attack",
    value: Annotated[Sequence[str], Argument("a value of the table command, repeatable", "NAME")] = (),
    title: Annotated[str, Argument("title of the page", "WORDS")] = "",
    versus: Annotated[str, Argument("the row from which the others' differences are shown (the first)", "ROW")] = "",
    labels: Labels = (),
    output: Annotated[str, Argument("the page (%(default)s)", "FILE.html")] = "report.html",
    where: Conditions = (),
    runs: RunSource,
) -> None:
    """One HTML page: tables, curves, and the runs behind every number."""
    path = Path(output)
    if path.suffix != ".html":
        raise ConfigError(f"--output must end in .html, got {output!r}")
    look = Look(versus=versus, names=named(labels))
    page = page_of(runs.load(), rows, columns, value, where, title, look)
    write_output(path, page)
    print(path)
