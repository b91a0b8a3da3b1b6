"""Mean curves over seeds, scaled for the small figures of a page."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.results import records
from robustfl_bench.results.records import text
from robustfl_bench.results.styles import BLACK, styles
from robustfl_bench.results.values import Value
from robustfl_bench.results.where import order

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 300, 190, 34, 8, 168
"""Of a panel; the lines are between LEFT and WIDTH, TOP and BOTTOM."""

_POINTS = 40  # of a line: a small figure shows no more
_BANDS = 5  # lines: the bands of more would cover each other
_OF_SUMMARY = {"final_accuracy": "test_accuracy", "test_loss": "test_loss"}
_DASHES = {"-": "", "--": "6 3", "-.": "6 3 1.5 3", ":": "1.5 3"}

Tick = tuple[float, str]
Spread = tuple[int, float, float, float]
"""A round, and of the numbers of its seeds the mean, the lowest and the highest."""


@dataclass(frozen=True)
class Line:
    """A line of a panel, and the band of its seeds, as SVG paths."""

    name: str
    colour: str
    dashes: str
    path: str
    band: str


@dataclass(frozen=True)
class Panel:
    """A small figure with its ticks; without a ``colour`` a line has that of the text."""

    title: str
    lines: Sequence[Line]
    across: Sequence[Tick]
    up: Sequence[Tick]


def panels(runs: pd.DataFrame, value: Value, lines: str, panels: str) -> list[Panel]:
    """The value against the round: one panel for each value of ``panels``, one line for each of ``lines``.

    Of the finished runs that have a folder; those without a readable ``metrics.csv`` are named by a warning. Empty if
    there are no such runs, or the value is not that of a round.
    """
    curves: dict[tuple[str, str], list[dict[int, float]]] = {}
    finished = runs[runs["state"] == "finished"]
    column = _OF_SUMMARY.get(value.name, value.name)
    for folder, panel, line in zip(
        finished["folder"], finished[panels].map(text), finished[lines].map(text), strict=True
    ):
        if not Path(folder).is_dir():  # a kept run
            continue
        try:
            curve = records.curve(folder, column)
        except records.Damaged as error:
            warnings.warn(f"not drawn: {Path(folder).name}: {error}", stacklevel=2)
            continue
        if curve:
            curves.setdefault((panel, line), []).append(curve)
    found = {key: _spread(group) for key, group in curves.items()}
    return _scaled(found, value.factor, percents=value.unit == "%") if found else []


def _spread(curves: Sequence[dict[int, float]]) -> list[Spread]:
    """Mean, lowest and highest over seeds at up to _POINTS rounds, the first and the last among them."""
    rounds = sorted(set().union(*curves))
    step = max(1, math.ceil((len(rounds) - 1) / (_POINTS - 1)))
    kept = dict.fromkeys([*rounds[:-1:step], rounds[-1]])
    found = []
    for done in kept:
        numbers = [curve[done] for curve in curves if done in curve and math.isfinite(curve[done])]
        if numbers:
            found.append((done, statistics.fmean(numbers), min(numbers), max(numbers)))
    return found


def _scaled(found: dict[tuple[str, str], list[Spread]], factor: float, percents: bool) -> list[Panel]:
    """Panels with the same axes."""
    from matplotlib.ticker import MaxNLocator

    points = [point for curve in found.values() for point in curve]
    up = [0, 100] if percents else [factor * number for point in points for number in point[2:]]
    low, high = min(up), max(up)
    first, last = min(point[0] for point in points), max(point[0] for point in points)

    def x(done: float) -> float:
        return LEFT + (WIDTH - LEFT) * (done - first) / max(last - first, 1)

    def y(number: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (number - low) / ((high - low) or 1)

    across = [
        (x(tick), f"{tick:g}")
        for tick in MaxNLocator(4, integer=True).tick_values(first, last)
        if first <= tick <= last
    ]
    upward = [(y(tick), f"{tick:g}") for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]
    names = sorted({line for _, line in found}, key=order)
    drawn = styles(names)
    made = []
    for title in sorted({panel for panel, _ in found}, key=order):
        lines = []
        for name in names:
            curve = found.get((title, name))
            if not curve:
                continue
            colour, _, dashes = drawn[name]
            means, lows, highs = ([(x(point[0]), y(factor * point[place])) for point in curve] for place in (1, 2, 3))
            band = f"{_path(lows)}L{_path(highs[::-1])[1:]}z" if len(names) <= _BANDS and lows != highs else ""
            lines.append(Line(name, "" if colour == BLACK else colour, _DASHES[dashes], _path(means), band))
        made.append(Panel(title, lines, across, upward))
    return made


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
