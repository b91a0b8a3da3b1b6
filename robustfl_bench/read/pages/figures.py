"""The figures of the papers by name, drawn from run folders, from kept runs, or from points that were kept themselves.
With an inventory of all figures and tables, and how many runs of each exist.

A file of points is a CSV with a line for each point that a figure shows (``pictures.curves.COLUMNS``). Its first line
is a comment with the figure's name and the overrides of its runs, by which it is found; its second one what stands
above the figure; its third one a seal, the beginning of the SHA-256 of all others.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base import regular, trusted
from robustfl_bench.base.console import printable
from robustfl_bench.base.errors import ConfigError, DataError, one_line, reason
from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import pd
from robustfl_bench.read.pages import plots
from robustfl_bench.read.pages.pictures import curves
from robustfl_bench.read.pages.pictures.canvas import PLAIN, Frame
from robustfl_bench.read.pages.pictures.curves import BYZANTINE, COLUMNS, WEIGHT, Curves
from robustfl_bench.read.pages.pictures.points import draw_bars, draw_plane
from robustfl_bench.read.runs import commands, kept_lines
from robustfl_bench.read.runs.archive import KEPT
from robustfl_bench.read.runs.matching import Index, Wanted, sweep, wanted
from robustfl_bench.read.runs.records import NoRuns, nothing, text
from robustfl_bench.read.runs.values import ACCURACIES, UNLEARNED, Value, at_chance, describe
from robustfl_bench.read.tables import described as papers
from robustfl_bench.read.tables.compare import filled
from robustfl_bench.read.tables.described import PaperFigure, PaperTable
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.config.names import readable
from robustfl_bench.runner.config.options import is_group
from robustfl_bench.runner.store.kept import sealer
from robustfl_bench.runner.store.writing import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


PROBED = ("spectrum", "fit", "plane", "fits", "search", "votes", "rates")
"""The kinds of figures whose numbers no run records; ``robustfl-bench probe`` makes their points."""
KINDS = ("rounds", "sweep", "heat", "bars", "weights", *PROBED)
_LONGEST = 1 << 16  # bytes of the first line of a file of points
_WEIGHT = Value(WEIGHT, "Weight of a client")


@dataclass(frozen=True)
class Points:
    """The content of a figure: ``table`` (``curves.COLUMNS``), its heading, lines on what is missing, and the lines
    whose models have not learned, by panel."""

    table: pd.DataFrame
    heading: str
    missing: Sequence[str] = ()
    unlearned: Mapping[str, Sequence[str]] = field(default_factory=dict)


def points(
    figure: PaperFigure,
    runs: pd.DataFrame,
    overrides: Sequence[str],
    kept: Sequence[Path],
    results_dir: str = "results",
    unsealed: bool = False,
) -> Points:
    """The points of a figure with these overrides: from its runs if all exist, else from a ``kept`` file.

    Raises ConfigError for overrides that no run can have, NoRuns if neither exists, and DataError for a file that is
    not what was written, or has no seal unless it may be ``unsealed``.
    """
    command = making(figure, overrides, results_dir)
    if figure.draw in PROBED:
        if (kept_points := _kept(figure, overrides, kept, unsealed)) is None:
            raise NoRuns(f"{figure.name} looks inside a round, of which runs keep nothing; this measures it: {command}")
        return kept_points
    wanted_runs = list(wanted(figure.preset, *figure.changes, *overrides))
    figure_runs = _runs_of(figure, runs, wanted_runs)
    figure_points = _kept(figure, overrides, kept, unsealed) if len(figure_runs) < len(wanted_runs) else None
    if figure_points is None:
        figure_points = _measured(figure, figure_runs, wanted_runs, runs, command)
    return replace(figure_points, unlearned=_unlearned(figure, wanted_runs, figure_points.table))


def _measured(
    figure: PaperFigure, figure_runs: pd.DataFrame, wanted_runs: Sequence[Wanted], runs: pd.DataFrame, command: str
) -> Points:
    """The points of the runs of a figure. Raises NoRuns if none is finished."""
    lacking = f"missing: {len(wanted_runs) - len(figure_runs)} of {len(wanted_runs)} runs; this makes them: {command}"
    finished = figure_runs[figure_runs["state"] == "finished"]
    if not len(finished):
        raise NoRuns(f"{figure.name} has no finished run; {lacking}")
    heading = plots.over_seeds(finished, plots.spread(figure.band, figure.draw == "rounds"))
    if lost := len(figure_runs) - len(finished):
        heading += f"; not drawn: {lost} diverged or infeasible"
    return Points(_gathered(figure, finished, runs), heading, [lacking] * (len(figure_runs) < len(wanted_runs)))


def making(figure: PaperFigure, overrides: Sequence[str], results_dir: str = "results") -> str:
    """The command that makes the runs or points of a figure."""
    if figure.draw in PROBED:
        return shlex.join(["robustfl-bench", "probe", figure.name, *overrides])
    return commands.preset(figure.preset, (*figure.changes, *overrides), results_dir)


def draw(figure: PaperFigure, shown: Points, frame: Frame = PLAIN) -> Picture:
    """The picture of points."""
    not_in_title = (part for part in shown.heading.split("; ") if part not in figure.title)
    heading = "; ".join(filter(None, (figure.title, *not_in_title, _cautions(shown))))
    x = figure.x if figure.draw in PROBED else _word(figure.x)
    values = [_described(name, None) for name in dict.fromkeys(shown.table["value"])]
    labels = figure.y if isinstance(figure.y, Mapping) else {value.name: figure.y for value in values if figure.y}
    y = {**plots.labels_of(values, figure.draw == "rounds"), **labels}
    if figure.draw == "plane":
        return draw_plane(shown.table, x, y[values[0].name], heading, frame)
    if figure.draw == "heat":
        side = figure.y if isinstance(figure.y, str) and figure.y else _word(figure.lines)
        return plots.draw_matrix(shown.table, values[0], side, figure.x, heading, frame)
    if figure.draw == "bars":
        return draw_bars(shown.table, y[values[0].name], heading, "x" in figure.log, frame=frame)
    whole = Curves(
        shown.table,
        x or "Round",
        y,
        heading,
        key=figure.lines if figure.draw in PROBED else _word(figure.lines),
        methods=plots.are_methods(figure.lines),
        clients=figure.draw == "weights",
        dense=figure.draw in ("rounds", *PROBED) or not figure.x,
        percent=plots.percents(values),
        log=figure.log,
        mark=figure.mark,
    )
    return curves.draw(whole, frame)


def write(figure: PaperFigure, overrides: Sequence[str], shown: Points, path: Path) -> None:
    """Write a file of points. Raises ConfigError when that cannot be done."""
    table = shown.table[list(COLUMNS)].to_csv(index=False, float_format="%.6g", lineterminator="\n")
    name, heading = f"# {shlex.join([figure.name, *overrides])}", f"# {printable(shown.heading)}"
    write_output(path, f"{name}\n{heading}\n{_seal(name, heading, table)}\n{table}")


def _seal(*parts: str) -> str:
    """The third line of a file of points."""
    return f"# seal {sealer(())(parts)}"


def shown_by(path: Path) -> tuple[str, frozenset[str]] | None:
    """The figure and the overrides of a file of points; None for another file. Raises ConfigError if it cannot be
    read."""
    try:
        with regular.opened(path) as file:
            first = file.readline(_LONGEST).decode("utf-8", errors="replace")  # it may be compressed
        words = shlex.split(first.removeprefix("#")) if first.startswith("# ") else []
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {reason(error)}") from error
    return (words[0], frozenset(words[1:])) if words and "/" in words[0] else None


def _kept(figure: PaperFigure, overrides: Sequence[str], files: Sequence[Path], unsealed: bool) -> Points | None:
    """The points of the first file that shows the figure with these overrides."""
    for path in files:
        if shown_by(path) == (figure.name, frozenset(overrides)):
            heading, rows = _sealed(path, unsealed)
            try:
                words = {"value": str, "panel": str, "line": str}
                table = pd.read_csv(io.StringIO(rows), dtype=words, keep_default_na=False)[list(COLUMNS)]
                return Points(table.astype(dict.fromkeys(("mean", "low", "high"), float)), heading)
            except (ValueError, KeyError) as error:
                raise ConfigError(f"{path} is damaged: {one_line(error)}") from error
    return None


def _sealed(path: Path, unsealed: bool) -> tuple[str, str]:
    """The heading and the table of a file of points, if its seal or the index says that it is what was written."""
    content, is_sealed = kept_lines.content(path)
    name, _, others = content.decode(errors="replace").partition("\n")
    heading, _, table = others.partition("\n")
    if table.startswith("# "):
        seal, _, table = table.partition("\n")
        if seal != _seal(name, heading, table):
            raise DataError(f"{path} is not what was written: it does not fit its seal")
    elif not is_sealed:
        kept_lines.refuse(path, "has no seal", unsealed)
    return heading.removeprefix("# "), table


def _runs_of(figure: PaperFigure, runs: pd.DataFrame, wanted_runs: Sequence[Wanted]) -> pd.DataFrame:
    """The finished runs of the figure, with their labels. A run that answers several requests, as one without attackers
    does for all attacks, appears several times. How often it was evaluated counts if an override says so.
    """
    rounds = figure.draw in ("rounds", "weights") or _WEIGHT.name in figure.values
    index, places, labels = Index(runs), [], []
    seeds, states, folders = (list(runs[name].map(text)) for name in ("seed", "state", "folder"))
    every = list(runs["eval_every"].map(text)) if "eval_every" in runs else [""] * len(runs)
    for run in wanted_runs:
        asked = run.words.get("eval_every", "")
        answers = (place for place in index.at(dict(run.settings)) if seeds[place] == run.seed and states[place] in KEPT
                   and asked in ("", every[place]) and (not rounds or Path(folders[place]).is_dir()))  # fmt: skip
        if (place := next(answers, None)) is not None:
            places.append(place)
            labels.append(_labels(figure, run.words, runs.iloc[place]))
    return runs.iloc[places].assign(**{name: [label[name] for label in labels] for name in ("panel", "line", "x")})


def _labels(figure: PaperFigure, words: Mapping[str, str], run: Any) -> dict[str, str]:
    """Where a run is drawn, by the overrides that made it."""

    def values(keys: str) -> Iterator[tuple[str, str]]:
        for key in filter(None, keys.split(",")):
            value = words[key] if key in words else text(run.get(key))
            yield key, value.rpartition("/")[2].strip("[]")

    named = [value if key.startswith("+") or is_group(key) or key == "variant" else f"{_word(key)} {value}"
             for key, value in values(figure.panels)]  # fmt: skip
    line, x = (", ".join(value for _, value in values(keys)) for keys in (figure.lines, figure.x))
    return {"panel": ", ".join(named).replace("_", " "), "line": line, "x": x}


def _gathered(figure: PaperFigure, chosen: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The points of the finished runs, for each of the figure's values."""
    default = "test_accuracy" if figure.draw == "rounds" else "final_accuracy"
    tables = []
    for name in figure.values or (default,):
        described = _described(name, runs)
        if name == _WEIGHT.name:
            clients = plots.curves_of_clients(chosen, last=figure.draw == "bars" or bool(figure.x))
            tables.append(by_client(clients, figure.honest_shares_of) if figure.draw == "bars" else clients)
        elif figure.draw == "rounds":
            tables.append(plots.curves_of_rounds(chosen, described, figure.band))
        else:
            tables.append(plots.curves_of_values(chosen, described, runs, figure.band))
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def _unlearned(figure: PaperFigure, wanted_runs: Sequence[Wanted], table: pd.DataFrame) -> dict[str, list[str]]:
    """The lines whose models have not learned without attackers, by panel; the points themselves tell, as kept points
    have no runs."""
    accuracies = table[table["value"].isin(ACCURACIES)].assign(x=lambda points: points["x"].map(text))
    lines: dict[str, dict[str, None]] = {}
    for run in wanted_runs:
        settings = dict(run.settings)
        if settings["num_byzantine"] == "0" and (classes := _classes(settings["dataset._target_"])):
            labels = _labels(figure, run.words, settings)
            keys = ("panel", "line") if figure.draw == "rounds" else ("panel", "line", "x")
            own = accuracies[(accuracies[list(keys)] == [labels[key] for key in keys]).all(axis=1)]
            if len(own) and at_chance(own["mean"].max() / 100, classes):
                lines.setdefault(labels["panel"], {})[labels["line"]] = None
    return {panel: list(names) for panel, names in lines.items()}


def _cautions(shown: Points) -> str:
    """The lines whose models have not learned, and their panels unless these are all."""
    panels = grouped((", ".join(lines), panel) for panel, lines in shown.unlearned.items())
    every = shown.table["panel"].nunique()
    words = [readable(lines) + f" ({readable(' and '.join(names))})" * (len(names) < every)
             for lines, names in panels.items()]  # fmt: skip
    return f"{UNLEARNED}: {'; '.join(words)}" if words else ""


@cache
def _classes(dataset: str) -> int | None:
    """The number of classes of a data set, by its class; None if its options decide."""
    try:
        with trusted.only():
            classes = targets.build({"_target_": dataset}).num_classes
    except (ConfigError, AttributeError):
        return None
    return classes if isinstance(classes, int) and classes > 1 else None


def by_client(clients: pd.DataFrame, method: str) -> pd.DataFrame:
    """Clients along the axis and a line for each method; one more for the honest clients of one ``method``."""
    points = clients.assign(x=clients["line"], line=clients["method"])
    honest = points[(points["line"] == method) & ~points["x"].str.startswith(BYZANTINE)]
    share = honest[["mean", "low", "high"]] / honest["mean"].sum()
    return pd.concat([points, honest.assign(line=f"{method}, honest clients alone", **share)], ignore_index=True)


def _described(name: str, runs: pd.DataFrame | None) -> Value:
    """The described value of a figure; without runs, an unknown name describes itself."""
    if name == _WEIGHT.name:
        return _WEIGHT
    try:
        return describe(name, nothing() if runs is None else runs)
    except ConfigError:
        if runs is None:
            return Value(name, name)
        raise


def _word(key: str) -> str:
    """A setting in a label."""
    return key.lstrip("+").rpartition(".")[2] or key


@dataclass(frozen=True)
class InventoryEntry:
    """A table or a figure: ``done`` of its ``runs`` are finished or known to be infeasible.

    Of a table, ``inside`` of the ``compared`` cells of all ``cells`` agree with the published number; ``stand_ins``
    more are measured with other settings. ``commands`` make the runs, and then the table or the figure. A ``probed``
    figure is not made of runs.
    """

    name: str
    title: str
    runs: int
    done: int
    commands: tuple[str, ...]
    cells: int | None = None
    compared: int = 0
    inside: int = 0
    stand_ins: int = 0
    probed: bool = False


def inventory(
    runs: pd.DataFrame, begins: str = "", known: Mapping[str, PaperTable | PaperFigure] | None = None
) -> Iterator[InventoryEntry]:
    """An entry for every table and figure whose name begins with ``begins``, measured by ``runs`` (``records.load``);
    ``known`` are those to choose from, by default all."""
    index = Index(runs)
    ended = [state in KEPT for state in runs["state"]]
    seeds = list(runs["seed"].map(text))
    everything: dict[str, PaperTable | PaperFigure] = {**papers.tables(), **papers.figures()}
    for name, entry in (everything if known is None else known).items():
        if not name.startswith(begins):
            continue
        runs_of = sweep(entry.preset, *entry.changes)
        done = sum(len({seeds[place] for place in index.at(dict(config)) if ended[place]} & asked)
                   for config, asked in runs_of.items())  # fmt: skip
        total = sum(map(len, runs_of.values()))
        if isinstance(entry, PaperFigure):
            both = (making(entry, ()), f"robustfl-results figure {name} --output {name.replace('/', '_')}.png")
            yield InventoryEntry(name, entry.title, total, done, both, probed=entry.draw in PROBED)
        else:
            yield _table(entry, runs, index, total, done)


def _table(table: PaperTable, runs: pd.DataFrame, index: Index, total: int, done: int) -> InventoryEntry:
    both = (commands.preset(table.preset, table.changes), f"robustfl-results table {table.name}")
    cells = len(table.cells)
    if not done and not table.stand_ins:
        return InventoryEntry(table.name, table.title, total, done, both, cells)
    measured = filled(table, runs, runs, index).table
    judged = measured.judged.values()
    inside = sum(bool(cell.inside) for cell in judged)
    stood_in = len(measured.stood_in)
    return InventoryEntry(table.name, table.title, total, done, both, cells, len(judged), inside, stood_in)
