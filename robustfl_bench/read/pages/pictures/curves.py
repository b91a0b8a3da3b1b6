"""Lines in panels: a mean with its spread against a round or a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from robustfl_bench.read.pages.pictures.canvas import (
    PLAIN,
    Axes,
    Figure,
    Frame,
    finish,
    for_print,
    grid,
    panels,
    plain_powers,
    room,
    spaced,
    whole_ticks,
)
from robustfl_bench.read.pages.pictures.styles import GREY, RED, Style, is_number, series, styles

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("value", "panel", "line", "x", "mean", "low", "high")
_MANY = 6  # lines: with more, their bands are drawn fainter
_FEW = 20  # Byzantine clients: more are drawn as a band, too
_BAND = 25  # percentage points: an axis shows points in a narrower band alone
_SLANTED = 0.22  # inches of the axis for a slanted name
_TICKS = 6  # on a logarithmic axis, that are named one by one
WEIGHT = "weight"
"""The value whose lines are clients."""
BYZANTINE = "byzantine_"
"""Begins the name of a Byzantine client, where the lines are clients."""


@dataclass(frozen=True)
class Curves:
    """The content of a picture of lines.

    ``points`` has the columns COLUMNS, in the order in which panels and lines are drawn; ``x`` is a number or a word.
    ``y`` names each value of the column ``value`` with its unit; those in ``percent`` go from 0 to 100. The lines are
    methods (``methods``), values of a setting, or clients (``clients``). ``key`` is what they are values of. With
    ``dense`` the spread is a band, else whiskers. ``log`` names the axes that are logarithmic. At ``mark`` there is
    a vertical line.
    """

    points: pd.DataFrame
    x: str
    y: Mapping[str, str]
    heading: str = ""
    key: str = ""
    methods: bool = False
    clients: bool = False
    dense: bool = False
    percent: frozenset[str] = frozenset()
    log: str = ""
    mark: float | None = None


@for_print
def draw(curves: Curves, frame: Frame = PLAIN) -> Figure:
    """One panel for each value and panel of the points, with one legend."""
    points = curves.points
    values, names = (list(dict.fromkeys(points[column])) for column in ("value", "panel"))
    rows = len(names) > 1 and len(values) > 1  # a row of panels for each value
    share: bool | Literal["row"] = "row" if rows else len(values) == 1
    figure, axes = panels(len(values) * len(names), frame, across=len(names) if rows else 0, share_y=share)
    lines = list(dict.fromkeys(points["line"][(points["value"] != WEIGHT) | (not curves.clients)]))
    drawn = styles(lines) if curves.methods else series(lines)
    places = places_on_axis(list(dict.fromkeys(points["x"])))
    for axis, (value, panel) in zip(axes, ((v, p) for v in values for p in names), strict=True):
        of_panel = points[(points["value"] == value) & (points["panel"] == panel)]
        if curves.clients and value == WEIGHT:
            _draw_clients(axis, of_panel, places)
        else:
            _draw_lines(axis, of_panel, places, curves, drawn)
        if curves.mark is not None:
            axis.axvline(curves.mark, color="#999999", linewidth=0.7, linestyle=":")
        _scales(axis, curves, frame, value, places)
        grid(axis, frame.name(panel))
        spec = axis.get_subplotspec()
        if len(values) > 1 and (not rows or spec is None or spec.colspan.start == 0):
            axis.set_ylabel(curves.y[value])
    for first in range(0, len(axes), len(names)) if rows else ():  # a value has one scale, also in several rows
        limits = [axis.get_ylim() for axis in axes[first : first + len(names)]]
        for axis in axes[first : first + len(names)]:
            axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    handles: dict[str, Any] = {}
    for axis in axes:
        drawn_lines, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn_lines, strict=True))
    ordered = {line: handles[line] for line in (*lines, *handles) if line and line in handles}
    y = curves.y[values[0]] if len(values) == 1 else ""
    return finish(figure, axes, frame, curves.heading, curves.x, y, ordered, curves.key)


def draw_on(axis: Axes, curves: Curves) -> None:
    """Draw the lines of one value on an axis of the caller, with labels and a legend, in the caller's fonts."""
    points = curves.points
    (value,) = dict.fromkeys(points["value"])
    lines = list(dict.fromkeys(points["line"]))
    places = places_on_axis(list(dict.fromkeys(points["x"])))
    _draw_lines(axis, points, places, curves, styles(lines) if curves.methods else series(lines))
    _scales(axis, curves, PLAIN, value, places)
    axis.set_xlabel(PLAIN.axis("x", curves.x))
    axis.set_ylabel(curves.y[value])
    handles, names = axis.get_legend_handles_labels()
    axis.legend(handles, map(PLAIN.name, names), title=PLAIN.axis("key", curves.key) or None)


def places_on_axis(ticks: Sequence[Any]) -> dict[Any, float]:
    """The position of each value on the axis: to scale if all are finite numbers, else one step each."""
    to_scale = all(not isinstance(tick, str) and math.isfinite(tick) for tick in ticks)
    ordered = sorted(ticks, key=lambda tick: (float(tick) if is_number(str(tick)) else math.inf, str(tick)))
    return {tick: float(tick) if to_scale else float(number) for number, tick in enumerate(ordered)}


def _scales(axis: Axes, curves: Curves, frame: Frame, value: str, places: Mapping[Any, float]) -> None:
    ticks = list(places)
    if any(isinstance(tick, str) for tick in ticks):
        names = [frame.name(str(tick)) for tick in ticks]
        axis.set_xticks(list(places.values()), names)
        if len(spaced(sorted(places.values()), names, room(axis))) < len(names):
            slanted = _SLANTED * len(names) <= room(axis)
            axis.tick_params(axis="x", labelrotation=30 if slanted else 90)
    elif "x" in curves.log:
        axis.set_xscale("log")
        plain_powers(axis.xaxis)
        if len(ticks) <= _TICKS:
            ticks = sorted(ticks)
            shown = spaced([math.log(tick) for tick in ticks], [f"{tick:g}" for tick in ticks], room(axis))
            axis.set_xticks([ticks[at] for at in shown], [f"{ticks[at]:g}" for at in shown])
        axis.xaxis.set_minor_formatter("")
    elif all(float(tick).is_integer() for tick in ticks):
        whole_ticks(axis.xaxis, ticks)
    if value in curves.percent:
        axis.set_ylim(*_percents(curves.points[curves.points["value"] == value]))
    elif "y" in curves.log:
        axis.set_yscale("log")
        plain_powers(axis.yaxis)
    if curves.clients and value == WEIGHT:
        axis.set_ylim(bottom=0)
    if curves.y[value].endswith("[clients]"):
        whole_ticks(axis.yaxis)
    if frame.ylim:
        axis.set_ylim(*frame.ylim)


def _percents(points: pd.DataFrame) -> tuple[float, float]:
    """The limits of an axis of percent: 0 and 100, or if all points are within a narrow band, those of the band."""
    low, high = points["low"].min(), points["high"].max()
    if not high - low <= _BAND:
        return 0, 100
    aside = max(1.0, 0.1 * (high - low))
    return max(0.0, low - aside), min(100.0, high + aside)


def _draw_lines(
    axis: Axes, rows: pd.DataFrame, places: Mapping[Any, float], curves: Curves, drawn: Mapping[str, Style]
) -> None:
    faint = 0.18 if len(drawn) <= _MANY else 0.08
    for number, (line, points) in enumerate(rows.groupby("line", sort=False)):
        colour, marker, dash = drawn[str(line)]
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dash, "label": str(line)}
        x, mean, low, high = [places[at] for at in points["x"]], points["mean"], points["low"], points["high"]
        has_spread = (high > low).any()
        if curves.dense:
            every = max(1, len(x) // 6)  # shifted below, so that lines that agree still show all markers
            axis.plot(x, mean, markevery=(number % every, every), **look)
            if has_spread:
                axis.fill_between(x, low, high, color=colour, alpha=faint, lw=0)
        else:
            axis.errorbar(x, mean, [mean - low, high - mean] if has_spread else None, **look)


def _draw_clients(axis: Axes, rows: pd.DataFrame, places: Mapping[Any, float]) -> None:
    """The weights of the honest clients as bands between quantiles; those of the Byzantine ones as lines, while few."""
    table = rows.pivot_table(index="x", columns="line", values="mean", sort=False)
    byzantine = [name for name in table if str(name).startswith(BYZANTINE)]
    x = [places[at] for at in table.index]
    axis.axhline(1 / len(table.columns), color="#999999", linewidth=0.7, linestyle=":", label="equal weights")
    _band(axis, x, table.drop(columns=byzantine), GREY, "honest")
    if len(byzantine) > _FEW:
        _band(axis, x, table[byzantine], RED, "attackers")
    else:
        for number, name in enumerate(byzantine):
            every = max(1, len(x) // 6)
            axis.plot(x, table[name], color=RED, linestyle="--", linewidth=0.9, label="attacker",
                      marker="osD^v"[number % 5], markersize=2.5, markevery=(number % every, every))  # fmt: skip


def _band(axis: Axes, x: Sequence[float], table: pd.DataFrame, colour: str, who: str) -> None:
    """Median, half and all of the clients."""
    low, first, middle, third, high = (table.quantile(share, axis=1) for share in (0, 0.25, 0.5, 0.75, 1))
    hatch, dash = ("///", "--") if colour == RED else (None, "-")  # told apart in grey
    axis.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, hatch=hatch, label=f"{who}: all")
    axis.fill_between(x, first, third, color=colour, alpha=0.4, linewidth=0, label=f"{who}: middle half")
    axis.plot(x, middle, color=colour, linewidth=1.3, linestyle=dash, label=f"{who}: median")
