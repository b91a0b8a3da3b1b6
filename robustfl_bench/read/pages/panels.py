"""Curves as small figures of a page: the points of a plot as SVG paths, in the styles of all figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from robustfl_bench.read.pages import plots
from robustfl_bench.read.pages.pictures.styles import BLACK, Style, series, styles
from robustfl_bench.read.runs.records import NoRuns, text
from robustfl_bench.read.runs.values import Value, describe
from robustfl_bench.runner.config.names import of_value, readable

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 300, 190, 34, 8, 168
"""Of a panel; the lines are between LEFT and WIDTH, TOP and BOTTOM."""

_POINTS = 40  # of a line: a small figure shows no more
_BANDS = 5  # lines: the bands of more would cover each other
_OF_A_ROUND = {"final_accuracy": "test_accuracy"}  # columns of metrics.csv that have another name than their value
_DASHES = {"-": "", "--": "6 3", "-.": "6 3 1.5 3", ":": "1.5 3"}

Tick = tuple[float, str]


@dataclass(frozen=True)
class Line:
    """A line of a panel and the band of its seeds, from lowest to highest, as SVG paths.

    ``title`` is its name for readers. Without a ``colour`` it has that of the text, without ``dashes`` it is solid.
    """

    name: str
    title: str
    colour: str
    dashes: str
    path: str
    band: str


@dataclass(frozen=True)
class CurvePanel:
    """A small figure with its ticks; all panels of a plot have the same axes."""

    title: str
    lines: Sequence[Line]
    across: Sequence[Tick]
    up: Sequence[Tick]


def panels(
    runs: pd.DataFrame, value: Value, lines: str, across: str, names: Mapping[str, str] = MappingProxyType({})
) -> list[CurvePanel]:
    """The value of finished runs against the round, mean over seeds: a panel for each value of the setting ``across``.
    ``names`` are words for labels.

    Empty if no run has a folder, as kept ones, or if the value is not that of a round.
    """
    chosen = runs[(runs["state"] == "finished") & runs["folder"].map(lambda folder: Path(folder).is_dir())]
    if not len(chosen):
        return []
    shown = describe(_OF_A_ROUND.get(value.name, value.name), chosen)
    chosen = chosen[["run", "folder"]].assign(line=chosen[lines].map(text), panel=chosen[across].map(text))
    try:
        points = plots.curves_of_rounds(chosen, shown, "minmax").dropna()
    except NoRuns:
        return []
    labels = list(dict.fromkeys(points["line"]))
    drawn = styles(labels) if plots.are_methods(lines) else series(labels)
    scale = _Scale(points, percents=shown.unit == "%")
    return [
        CurvePanel(of_value(across, str(panel), names), [
            _line(str(name), readable(str(name), names), drawn[str(name)], curve, scale, len(labels) <= _BANDS)
            for name, curve in of_panel.groupby("line", sort=False)], scale.across, scale.up)
        for panel, of_panel in points.groupby("panel", sort=False)
    ]  # fmt: skip


class _Scale:
    """From rounds and numbers to places in a panel, with the ticks of its axes."""

    def __init__(self, points: pd.DataFrame, percents: bool) -> None:
        from matplotlib.ticker import MaxNLocator

        self._rounds = int(points["x"].min()), int(points["x"].max())
        self._numbers = (0.0, 100.0) if percents else (float(points["low"].min()), float(points["high"].max()))
        across = MaxNLocator(4, integer=True).tick_values(*self._rounds)
        up = MaxNLocator(4).tick_values(*self._numbers)
        self.across = [(self.x(tick), f"{tick:g}") for tick in across if _is_within(tick, self._rounds)]
        self.up = [(self.y(tick), f"{tick:g}") for tick in up if _is_within(tick, self._numbers)]

    def x(self, done: float) -> float:
        first, last = self._rounds
        return LEFT + (WIDTH - LEFT) * (done - first) / ((last - first) or 1)

    def y(self, number: float) -> float:
        low, high = self._numbers
        return BOTTOM - (BOTTOM - TOP) * (number - low) / ((high - low) or 1)

    def path(self, rounds: Sequence[int], numbers: Sequence[float]) -> str:
        places = zip(map(self.x, rounds), map(self.y, numbers), strict=True)
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _is_within(tick: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= tick <= limits[1]


def _line(name: str, title: str, style: Style, curve: pd.DataFrame, scale: _Scale, with_band: bool) -> Line:
    step = -(-(len(curve) - 1) // (_POINTS - 1)) or 1
    columns = (list(curve[column]) for column in ("x", "mean", "low", "high"))
    rounds, means, low, high = (values[::-step][::-1] for values in columns)  # the last round is one of them
    band = f"{scale.path(rounds, low)}L{scale.path(rounds[::-1], high[::-1])[1:]}z" if with_band and low != high else ""
    colour, _, dash = style
    dashes = _DASHES[dash] if isinstance(dash, str) else " ".join(map(str, dash[1]))
    return Line(name, title, "" if colour == BLACK else colour, dashes, scale.path(rounds, means), band)
