"""Pictures of runs: metrics and the clients' weights against the round, any value against settings, recall per class.

``curves_of_...`` take runs whose columns ``panel`` and ``line`` say where they are drawn, and return points as
``pictures.curves`` has them; the other functions choose the runs, and draw.
"""

from __future__ import annotations

import math
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import np, pd
from robustfl_bench.read.pages.pictures import curves, heat
from robustfl_bench.read.pages.pictures.canvas import PLAIN, Figure, Frame
from robustfl_bench.read.pages.pictures.curves import COLUMNS, WEIGHT, Curves
from robustfl_bench.read.pages.pictures.heat import HeatPanel, Scale
from robustfl_bench.read.runs import records, values
from robustfl_bench.read.runs.records import Damaged, NoRuns, text
from robustfl_bench.read.runs.values import UNLEARNED, Value, describe, measure, unlearned
from robustfl_bench.read.runs.where import (
    check_name,
    is_constant,
    keys,
    narrowing,
    natural,
    order,
    require_comparable,
    where,
)
from robustfl_bench.runner.config.names import readable

BANDS = {
    "minmax": "span lowest to highest",
    "sd": "are one sample sd to each side",
    "se": "are one standard error to each side",
}
METHODS = ("aggregator", "+method", "rule")
"""The settings whose values are methods, each with a style of its own."""
_FOUND = Value("found", "Attackers found", "%", better=1)
_SHARES = [number / 100 for number in range(101)]
RECALL = Scale("Recall [%]", 0, 100)
"""The colours of recalls."""


@dataclass(frozen=True)
class ShownRuns:
    """What a picture of runs shows: a line for each value of ``lines`` and a panel for each of ``panels``, which can be
    several settings with commas, of the runs that meet the ``conditions``; each line with a ``band`` over seeds."""

    lines: str = "aggregator"
    panels: str = "attack"
    conditions: Sequence[str] = ()
    band: str = "minmax"
    frame: Frame = PLAIN

    def of(self, runs: pd.DataFrame, x: str = "") -> pd.DataFrame:
        """The finished runs, see ``select``."""
        return select(runs, self.lines, self.panels, self.conditions, x)

    def drawn(self, points: pd.DataFrame, value: Value, x: str, heading: str, log: str | None = None) -> Figure:
        """Points of a value against ``x``; dense ones have ``log``, the axes that are logarithmic."""
        dense = log is not None
        labels, methods, percent = labels_of([value], dense), are_methods(self.lines), percents([value])
        lines = Curves(points, x, labels, heading, self.lines, methods, dense=dense, percent=percent, log=log or "")
        return curves.draw(lines, self.frame)

    def heading(self, runs: pd.DataFrame, chosen: pd.DataFrame, dense: bool) -> str:
        """What is drawn of the runs, of which the ``chosen`` are finished, with bands or whiskers."""
        return over_seeds(chosen, spread(self.band, dense)) + self.cautions(runs)

    def cautions(self, runs: pd.DataFrame) -> str:
        """Which runs are not drawn as their models diverged, and which models have not learned, for the heading."""
        chosen = where(runs, self.conditions)
        kinds = {"diverged": [state == "diverged" for state in chosen["state"]], UNLEARNED: unlearned(chosen)}
        words = []
        for kind, are_of_kind in kinds.items():
            labels = chosen[are_of_kind][_keys(self.lines, self.panels)].map(text)
            if len(labels):
                counts = labels.agg(" / ".join, axis=1).value_counts().sort_index()
                words.append(
                    f"; {kind}: {', '.join(f'{readable(str(name))} ({count})' for name, count in counts.items())}"
                )
        return "".join(words)


USUAL, OF_CLIENTS, WHOLE = ShownRuns(), ShownRuns(panels="aggregator"), ShownRuns(panels="")


def rounds(runs: pd.DataFrame, value: str = "test_accuracy", shown: ShownRuns = USUAL, x: str = "round") -> Figure:
    """A column of ``metrics.csv`` against the round: one line per value of ``lines``, its mean over seeds with a band.

    ``x`` is another column that grows from round to round, such as ``simulated_time``; its axis is logarithmic. Draws
    the finished runs of ``records.load`` that have the columns. Raises ConfigError when they differ in anything else
    than what is shown, NoRuns when there are none.
    """
    chosen = shown.of(runs)
    points = curves_of_rounds(chosen, describe(value, chosen), shown.band, x)
    title, log = ("Round", "") if x == "round" else (describe(x, chosen).of_a_round, "x")
    return shown.drawn(points, describe(value, chosen), title, shown.heading(runs, chosen, dense=True), log)


def sweep(runs: pd.DataFrame, x: str, value: str = "final_accuracy", shown: ShownRuns = USUAL) -> Figure:
    """A value of finished runs against the setting ``x``: one line per value of ``lines``, mean over seeds.

    ``x`` is to scale where all its values are numbers, else one step each. ``value`` is one that ``values.describe``
    knows. Raises as ``rounds`` does.
    """
    described = describe(value, runs)
    chosen = shown.of(runs[runs[x].notna()] if x in runs else runs, x)
    points = curves_of_values(chosen, described, runs, shown.band)
    return shown.drawn(points, described, x, shown.heading(runs, chosen, dense=False))


def weights(runs: pd.DataFrame, shown: ShownRuns = OF_CLIENTS) -> Figure:
    """What the clients counted for against the round: bands for the honest ones, lines for the Byzantine ones.

    One run in each panel. Raises as ``rounds`` does, and ConfigError for several runs in a panel.
    """
    chosen = _finished(runs, shown.conditions, *_keys(shown.panels))
    chosen = chosen.assign(panel=_labels(chosen, shown.panels), line="", x="")
    for panel, panel_runs in chosen.groupby("panel"):
        if len(panel_runs) > 1:
            advice = " ".join(f"--where {shlex.quote(condition)}" for condition in narrowing(panel_runs))
            raise ConfigError(f"{panel} has {len(panel_runs)} runs; choose one, for example by {advice}")
    points = curves_of_clients(chosen)
    label = {WEIGHT: "Weight of a client"}
    return curves.draw(Curves(points, "Round", label, over_seeds(chosen), clients=True, dense=True), shown.frame)


def roc(runs: pd.DataFrame, shown: ShownRuns = USUAL) -> Figure:
    """Attackers found against honest clients suspected [%], by the weights of all rounds: one line per value of
    ``lines``, mean over seeds. Raises as ``rounds`` does."""
    chosen = shown.of(runs)
    points = curves_of_suspicion(chosen, shown.band)
    return shown.drawn(points, _FOUND, "Honest clients suspected [%]", shown.heading(runs, chosen, dense=True), "")


def curves_of_suspicion(chosen: pd.DataFrame, band: str) -> pd.DataFrame:
    """Points of the ROC curves of runs that have weights and attackers. Raises NoRuns if there are none."""

    def of_runs(group: pd.DataFrame) -> pd.Series[float] | None:
        columns = []
        for folder in group["folder"]:
            try:
                found = values.suspicion(folder)
            except Damaged as error:
                reasons.append(str(error))
            else:
                shares = [100 * share for share in _SHARES]
                columns.append(100 * values.suspicion_curve(found, _SHARES).set_axis(shares))
        return pd.concat(columns) if columns else None

    reasons = list[str]()
    points = _points(chosen, _FOUND.name, band, of_runs)
    if not len(points):
        raise NoRuns(f"no run with a ROC curve: {'; '.join(dict.fromkeys(reasons))}")
    return points


def recall(runs: pd.DataFrame, shown: ShownRuns = USUAL) -> Figure:
    """Recall per class [%] after the last round, mean over seeds: one row per value of ``lines``, classes across.

    Grey: the class has no test sample. Raises as ``rounds`` does.
    """
    chosen = with_recall(shown.of(runs))
    heading = over_seeds(chosen) + shown.cautions(runs)
    return heat.draw(recalls(chosen), RECALL, "Class", shown.lines, heading, shown.frame)


def with_recall(chosen: pd.DataFrame) -> pd.DataFrame:
    """The runs that record a recall per class. Raises NoRuns if there are none."""
    chosen = chosen[chosen["recall"].map(lambda values: isinstance(values, list))]
    if not len(chosen):
        raise NoRuns("none of these runs records a recall per class")
    return chosen


def recalls(chosen: pd.DataFrame) -> list[HeatPanel]:
    """The recall per class [%] of runs with their ``line`` and ``panel``, a heat map for each panel."""
    classes = max(map(len, chosen["recall"]))
    names = _ordered(chosen["line"])
    grids = []
    for panel in _ordered(chosen["panel"]):
        shares = np.full((len(names), classes), np.nan)
        for name, of_line in chosen[chosen["panel"] == panel].groupby("line"):
            shares[names.index(str(name))] = 100 * np.mean(np.asarray(list(of_line["recall"]), dtype=float), axis=0)
        grids.append(HeatPanel(panel, names, range(classes), shares))
    return grids


def trajectory(runs: pd.DataFrame, shown: ShownRuns = USUAL) -> Figure:
    """Recall per class [%] against the round, mean over seeds: a panel for each value of ``lines`` and ``panels``.

    Raises as ``rounds`` does.
    """
    chosen = shown.of(runs)
    grids = []
    for panel in _ordered(chosen["panel"]):
        for line in _ordered(chosen["line"]):
            of_line = chosen[(chosen["panel"] == panel) & (chosen["line"] == line)]
            tables = [table.set_index("round").filter(regex=r"^recall_\d+$")
                      for table in records.all_metrics(of_line).values()]  # fmt: skip
            tables = [table for table in tables if len(table.columns)]
            if tables:
                mean = pd.concat(tables).groupby(level=0).mean()
                names = [str(name).removeprefix("recall_") for name in mean]
                shares = 100 * np.asarray(mean, dtype=float).T
                grids.append(HeatPanel(f"{line}, {panel}", names, list(mean.index), shares))
    if not grids:
        raise NoRuns("none of these runs records a recall per class")
    heading = over_seeds(chosen) + shown.cautions(runs)
    return heat.draw(grids, RECALL, "Round", "Class", heading, shown.frame)


def matrix(
    runs: pd.DataFrame, columns: str = "attack", value: str = "final_accuracy", shown: ShownRuns = WHOLE
) -> Figure:
    """A value of finished runs by two settings, mean over seeds, as a heat map: ``lines`` are its rows.

    Where the columns are attacks, the worst one of every row has a frame. Raises as ``rounds`` does.
    """
    described = describe(value, runs)
    chosen = shown.of(runs, columns)
    points = curves_of_values(chosen, described, runs, "minmax")
    heading = over_seeds(chosen) + replace(shown, panels=columns).cautions(runs)
    return draw_matrix(points, described, shown.lines, columns, heading, shown.frame)


def draw_matrix(
    points: pd.DataFrame, described: Value, rows: str, columns: str, heading: str, frame: Frame = PLAIN
) -> Figure:
    """The means of points as a heat map: their lines down the side, their ``x`` across."""
    heading += "; framed: the worst attack on a row" * (columns == "attack" and bool(described.better))
    return heat.draw(matrices(points, described, columns), scale_of(points, described), columns, rows, heading, frame)


def scale_of(points: pd.DataFrame, described: Value) -> Scale:
    """The colours of a value: those of all percentages, else from the least to the greatest mean."""
    low, high = (0.0, 100.0) if described.unit == "%" else (points["mean"].min(), points["mean"].max())
    return Scale(described.with_unit, low, high if high > low else low + 1, f"{{:.{described.digits}f}}".format)


def matrices(points: pd.DataFrame, described: Value, columns: str) -> list[HeatPanel]:
    """The means of points, a heat map for each panel; where the ``columns`` are attacks, the worst are marked."""
    names = list(dict.fromkeys(points["line"]))
    across = sorted({text(x) for x in points["x"]}, key=order)
    attacks = columns == "attack" and bool(described.better)
    grids = []
    for panel, of_panel in points.groupby("panel", sort=False):
        numbers = np.full((len(names), len(across)), np.nan)
        for line, x, mean in zip(of_panel["line"], of_panel["x"], of_panel["mean"], strict=True):
            numbers[names.index(line), across.index(text(x))] = mean
        marked = _worst(numbers, across, described.better) if attacks else frozenset()
        grids.append(HeatPanel(str(panel), names, across, numbers, marked))
    return grids


def _worst(numbers: Any, attacks: Sequence[str], better: int) -> frozenset[tuple[int, int]]:
    """The place of the worst attack in every row that has one."""
    harm = np.where([attack == "none" for attack in attacks], np.nan, -better * numbers)
    return frozenset((row, int(np.nanargmax(line))) for row, line in enumerate(harm) if not np.isnan(line).all())


def curves_of_rounds(chosen: pd.DataFrame, described: Value, band: str, x: str = "round") -> pd.DataFrame:
    """Points of a column of ``metrics.csv`` against the round, or against a column ``x`` that grows. Only these columns
    are read.

    At each point of another column than the round, a run has the value of its last evaluated round up to there.
    """

    def of_runs(group: pd.DataFrame) -> pd.Series[float] | None:
        columns = []
        for folder, run in zip(group["folder"], group["run"], strict=True):
            try:
                series = records.column(folder, described.name)
                places = records.column(folder, x) if series is not None and x != "round" else None
            except Damaged as error:
                warnings.warn(f"left out {run}: {error}", stacklevel=2)
                continue
            if series is not None and x == "round":
                columns.append(series)
            elif series is not None and places is not None:
                columns.append(series.set_axis(places))
        columns = columns if x == "round" else _stepped(columns, x)
        return described.factor * pd.concat(columns) if columns else None

    points = _points(chosen, described.name, band, of_runs)
    if not len(points):
        columns = described.name if x == "round" else f"{described.name} and {x}"
        raise NoRuns(f"none of these runs has a readable metrics.csv with {columns}")
    return points


def _stepped(columns: Sequence[pd.Series[float]], x: str) -> list[pd.Series[float]]:
    """The series at the same points, those of all of them where all have values, each with its last value up to there.

    Raises ConfigError for a column that does not grow.
    """
    if not columns:
        return []
    if not all(series.index.is_monotonic_increasing and series.index.is_unique for series in columns):
        raise ConfigError(f"--x takes a column that grows from round to round, such as simulated_time; {x} does not")
    first, last = max(series.index[0] for series in columns), min(series.index[-1] for series in columns)
    points = sorted({point for series in columns for point in series.index if first <= point <= last})
    return [series.reindex(points, method="ffill") for series in columns]


def curves_of_values(chosen: pd.DataFrame, described: Value, runs: pd.DataFrame, band: str) -> pd.DataFrame:
    """Points of a value against the column ``x``; MRD looks for its references in ``runs``."""
    measured = measure(described, chosen, runs)
    chosen = chosen.assign(number=[measured[folder].number for folder in chosen["folder"]])
    if not chosen["number"].notna().any():
        reasons = {measurement.reason for measurement in measured.values() if measurement.reason}
        raise NoRuns(f"none of these runs has a {described.name}: {'; '.join(sorted(reasons)) or 'all diverged'}")
    chosen = chosen[chosen["number"].notna()]
    points = _points(chosen, described.name, band, lambda group: group.set_index("x")["number"])
    return _to_scale(points)


def curves_of_clients(chosen: pd.DataFrame, last: bool = False) -> pd.DataFrame:
    """Points of every client's weight against the round, or of the ``last`` one against the column ``x``; raises NoRuns
    where a run has none."""
    tables = []
    places = zip(*(chosen[name] for name in ("panel", "x", "line", "folder")), strict=True)
    for panel, x, line, folder in places:
        try:
            table = records.weights(folder)
        except Damaged as error:
            raise NoRuns(f"{Path(folder).name} has no weights of clients: {error}") from error
        long = (table.tail(1) if last else table).melt("round", var_name="client", value_name="mean").dropna()
        at = {"x": x} if last else {"x": long["round"]}
        tables.append(long.assign(value=WEIGHT, panel=panel, line=long["client"], method=line, **at))
    points = pd.concat(tables, ignore_index=True)
    points = points.assign(low=points["mean"], high=points["mean"])
    number = points["line"].map(lambda name: int(str(name).rsplit("_", 1)[-1]))
    points = points.assign(number=number).sort_values("number", kind="stable")[[*COLUMNS, "method"]]
    return _to_scale(points) if last else points


def _to_scale(points: pd.DataFrame) -> pd.DataFrame:
    """The points with numbers as ``x``, where all of its words are finite ones."""
    to_scale = all(math.isfinite(natural(tick)[0]) for tick in points["x"])
    return points.astype({"x": float}) if to_scale else points


def _points(
    chosen: pd.DataFrame, value: str, band: str, of_runs: Callable[[pd.DataFrame], pd.Series[float] | None]
) -> pd.DataFrame:
    """Mean and spread over runs, for each panel, line and index of the series that ``of_runs`` gives."""
    groups = {key: of_runs(group) for key, group in chosen.groupby(["panel", "line"])}
    groups = {key: numbers for key, numbers in groups.items() if numbers is not None}
    if not groups:
        return pd.DataFrame(columns=list(COLUMNS))
    numbers = pd.concat(groups, names=["panel", "line", "x"])
    spread = numbers.groupby(level=["panel", "line", "x"]).agg(["mean", "min", "max", "std", "count"])
    panels, lines = ({name: place for place, name in enumerate(_ordered(chosen[key]))} for key in ("panel", "line"))
    spread = spread.loc[sorted(spread.index, key=lambda at: (panels[at[0]], lines[at[1]], natural(text(at[2]))))]
    low, high = spread["min"], spread["max"]
    if band != "minmax":
        aside = spread["std"].fillna(0) / (spread["count"] ** 0.5 if band == "se" else 1)
        low, high = spread["mean"] - aside, spread["mean"] + aside
    points = spread[["mean"]].assign(value=value, low=low, high=high).reset_index()
    return points[list(COLUMNS)]


def spread(band: str, dense: bool) -> str:
    """What the bands, or else the whiskers, of a picture are."""
    return f"{'bands' if dense else 'whiskers'} {BANDS[band]}"


def are_methods(key: str) -> bool:
    """Whether the values of a setting, or of several joined ones, are methods."""
    return any(name in METHODS for name in key.split(",")) or key.partition("@")[0] == "aggregator"


def labels_of(values: Sequence[Value], of_a_round: bool) -> dict[str, str]:
    """What the axis of each value says."""
    return {value.name: value.of_a_round if of_a_round else value.with_unit for value in values}


def percents(values: Sequence[Value]) -> frozenset[str]:
    """The values that go from 0 to 100."""
    return frozenset(value.name for value in values if value.unit == "%")


def select(runs: pd.DataFrame, lines: str, panels: str, conditions: Sequence[str], x: str = "") -> pd.DataFrame:
    """The finished runs, comparable but for the setting ``x``, with their ``line``, ``panel`` and ``x`` labels."""
    axes = _keys(lines, panels, x)
    chosen = _finished(runs, conditions, *axes)
    require_comparable(chosen, axes)
    labels = {"x": chosen[x].map(text)} if x else {}
    return chosen.assign(line=_joined(chosen, lines), panel=_labels(chosen, panels), **labels)


def _keys(*axes: str) -> list[str]:
    """The settings of axes, each of which can be several with commas, or none."""
    return [key for axis in axes for key in axis.split(",") if key]


def _joined(chosen: pd.DataFrame, axis: str) -> pd.Series[str]:
    """The values of the settings of an axis, in words."""
    return chosen[_keys(axis)].map(text).agg(", ".join, axis=1)


def _labels(chosen: pd.DataFrame, panels: str) -> pd.Series[str] | str:
    """The title of each run's panel."""
    if not panels:
        return ""
    return _joined(chosen, panels) if "," in panels else f"{panels}: " + _joined(chosen, panels)


def _finished(runs: pd.DataFrame, conditions: Sequence[str], *settings: str) -> pd.DataFrame:
    """The finished runs that meet the conditions; the settings must be known."""
    for name in settings:
        check_name(name, keys(runs), "key")
    chosen = where(runs, conditions)
    chosen = chosen[chosen["state"] == "finished"]
    if not len(chosen):
        raise NoRuns("none of these runs is finished; robustfl-results status shows how far they are")
    return chosen


def _ordered(labels: pd.Series[str]) -> list[str]:
    """The labels in order; that of a panel of one setting begins with its name."""
    return sorted(set(labels), key=lambda label: [order(value) for value in label.rpartition(": ")[2].split(", ")])


def over_seeds(chosen: pd.DataFrame, spread: str = "") -> str:
    """What is drawn over how many seeds, and of which data."""
    places = [name for name in ("panel", "line", "x") if name in chosen]
    counts = sorted(set(chosen.groupby(places)["seed"].nunique()))
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    seeds = f"{number} seed{'s' * (counts[-1] > 1)}"
    held = [readable(text(chosen["dataset"].iloc[0]))] if is_constant(chosen, "dataset") else []
    held += ["quick scale"] if (chosen["scale"] == "quick").any() else []
    mean = f"mean over {seeds}" + (f", {spread}" if spread else "") if counts[-1] > 1 else seeds
    return "; ".join([*held, mean])
