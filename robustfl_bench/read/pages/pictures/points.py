"""Pictures of single numbers and of pairs: bars and dots of many names, points in a plane, named points in panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robustfl_bench.read.pages.pictures.canvas import (
    HIGHEST,
    PLAIN,
    Axes,
    Figure,
    Frame,
    finish,
    for_print,
    grid,
    panels,
    plain_powers,
)
from robustfl_bench.read.pages.pictures.styles import BLACK, BLUE, GREEN, GREY, RED, ramp, series, styles

if TYPE_CHECKING:
    import pandas as pd

_BARS_ROW, _LOWEST_ROW = 0.12, 0.095  # inches of a name, and of each further bar; and of one of many


@for_print
def draw_bars(
    points: pd.DataFrame, x: str, heading: str, log: bool = False, colours: Mapping[str, str] | None = None,
    frame: Frame = PLAIN,
) -> Figure:  # fmt: skip
    """The means of points (``curves.COLUMNS``) against the words of their ``x``, the first on top.

    A bar for each line; of a single one, ``colours`` gives that of some words.
    """
    words, lines = (list(dict.fromkeys(points[column])) for column in ("x", "line"))
    height = min(_BARS_ROW * len(words) * max(1.0, 0.6 * len(lines)), max(HIGHEST - 0.8, _LOWEST_ROW * len(words)))
    figure, (axis,) = panels(1, frame, height=0.3 + height)
    thick = 0.8 / len(lines)
    drawn = dict(zip(lines, ramp(len(lines)), strict=True))  # told apart in grey, where bars have no marker
    handles = {}
    for number, (line, rows) in enumerate(points.groupby("line", sort=False)):
        places = [words.index(word) + (number - (len(lines) - 1) / 2) * thick for word in rows["x"]]
        colour = drawn[str(line)] if len(lines) > 1 else [(colours or {}).get(word, BLUE) for word in rows["x"]]
        handles[str(line)] = axis.barh(places, rows["mean"], thick, color=colour)
    axis.set_yticks(range(len(words)), [frame.name(str(word)) for word in words])
    axis.set_ylim(len(words) - 0.4, -0.6)
    if log:
        axis.set_xscale("log")
        plain_powers(axis.xaxis)
        axis.xaxis.set_minor_formatter("")
    grid(axis, "")
    axis.grid(visible=False, axis="y")
    return finish(figure, [axis], frame, heading, x, legend=handles if len(lines) > 1 else None)


_DOTS_ROW = 0.12  # inches
_REFERENCES = ((GREEN, "--"), (RED, ":"))


@dataclass(frozen=True)
class Dot:
    """Two numbers of a name, nan if unknown, and the interval of the second, ``low`` to ``high``."""

    name: str
    first: float
    second: float
    low: float
    high: float


@dataclass(frozen=True)
class DotPanel:
    """Dots from top to bottom, and the positions of the lines of reference, by name."""

    title: str
    dots: Sequence[Dot]
    references: Mapping[str, float] = field(default_factory=dict)


@for_print
def draw_dots(shown: Sequence[DotPanel], first: str, second: str, x: str, heading: str, frame: Frame = PLAIN) -> Figure:
    """The panels beside each other. ``first`` and ``second`` describe the two numbers, ``x`` their unit. A name has the
    row of the first panel that shows it.
    """
    names = list(dict.fromkeys(dot.name for panel in shown for dot in panel.dots))
    figure, axes = panels(len(shown), frame, height=0.3 + _DOTS_ROW * len(names))
    handles: dict[str, Any] = {}
    for axis, panel in zip(axes, shown, strict=True):
        places = [names.index(dot.name) for dot in panel.dots]
        numbers = [dot.second for dot in panel.dots]
        axis.hlines(places, numbers, [dot.first for dot in panel.dots], color="#cccccc", linewidth=0.8, zorder=1)
        for (name, place), (colour, dash) in zip(panel.references.items(), _REFERENCES, strict=False):
            handles[name] = axis.axvline(place, color=colour, linestyle=dash, linewidth=0.9, zorder=1)
        (handles[first],) = axis.plot(
            [dot.first for dot in panel.dots], places, "o", markerfacecolor="white", markeredgecolor=GREY, zorder=2
        )
        reach = [[dot.second - dot.low for dot in panel.dots], [dot.high - dot.second for dot in panel.dots]]
        handles[second] = axis.errorbar(
            numbers, places, xerr=reach, fmt="o", color=BLUE, ecolor=BLACK, elinewidth=0.7, zorder=3
        )
        axis.set_yticks(range(len(names)), [frame.name(name) for name in names])
        axis.set_ylim(len(names) - 0.4, -0.6)
        grid(axis, frame.name(panel.title))
        axis.grid(visible=False, axis="y")
    return finish(figure, axes, frame, heading, x, legend=handles)


CLIENTS = "honest updates"
"""The line of the clients' points."""


@for_print
def draw_plane(points: pd.DataFrame, x: str, y: str, heading: str, frame: Frame = PLAIN) -> Figure:
    """The points (``curves.COLUMNS``) of each line at ``x`` and ``mean``, in panels; the origin is the honest mean.

    The clients' points set the limits: what an attack drives farther out is only in the points.
    """
    names = list(dict.fromkeys(points.loc[points["line"] != CLIENTS, "panel"]))
    lines = [line for line in dict.fromkeys(points["line"]) if line != CLIENTS]
    clients = points[points["line"] == CLIENTS]
    figure, axes = panels(len(names), frame, height=1.7)
    drawn = styles(lines)
    handles: dict[str, Any] = {}
    for axis, name in zip(axes, names, strict=True):
        handles[CLIENTS] = axis.scatter(clients["x"], clients["mean"], s=3, color="#bbbbbb", linewidths=0)
        aggregates = points[(points["panel"] == name) & (points["line"] != CLIENTS)]
        for line, rows in aggregates.groupby("line", sort=False):
            colour, marker, _ = drawn[str(line)]
            handles[str(line)] = axis.scatter(rows["x"], rows["mean"], s=16, marker=marker, facecolors="none",
                                              edgecolors=colour, linewidths=1)  # fmt: skip
        (handles["honest mean"],) = axis.plot(0, 0, "k+", markersize=8, markeredgewidth=1.2, linestyle="none")
        for limit, column in ((axis.set_xlim, "x"), (axis.set_ylim, "mean")):
            limit(1.2 * clients[column].min(), 1.2 * clients[column].max())
        grid(axis, frame.name(name))
    return finish(figure, axes, frame, heading, x, y, handles)


@dataclass(frozen=True)
class NamedPoint:
    """A point with the ``kind`` that gives its colour and marker. Its name is written beside it if it is ``shown``."""

    name: str
    x: float
    y: float
    kind: str = ""
    shown: bool = True


@dataclass(frozen=True)
class ScatterPanel:
    """The points of a panel; the names of the first keep their places."""

    title: str
    points: Sequence[NamedPoint]


@for_print
def draw_scatter(
    shown: Sequence[ScatterPanel], x: str, y: str, heading: str, log: bool = False, frame: Frame = PLAIN,
    height: float = 2.4,
) -> Figure:  # fmt: skip
    """The panels beside each other with the same axes; with ``log`` the x axis is logarithmic."""
    figure, axes = panels(len(shown), frame, height=height)
    kinds = series(list(dict.fromkeys(point.kind for panel in shown for point in panel.points)))
    handles: dict[str, Any] = {}
    for axis, panel in zip(axes, shown, strict=True):
        for kind, (colour, marker, _) in kinds.items():
            of = [point for point in panel.points if point.kind == kind]
            drawn = axis.scatter(
                [point.x for point in of], [point.y for point in of], s=12, color=colour, marker=marker,
                linewidths=0, zorder=2,
            )  # fmt: skip
            if kind and of:
                handles[kind] = drawn
        if log:
            axis.set_xscale("log")
            plain_powers(axis.xaxis)
        axis.margins(0.06)
        grid(axis, frame.name(panel.title))
    finished = finish(figure, axes, frame, heading, x, y, handles)
    finished.draw_without_rendering()  # the names are placed by where the points lie
    for axis, panel in zip(axes, shown, strict=True):
        _write(axis, [point for point in panel.points if point.shown], panel.points, frame)
    return finished


def _write(axis: Axes, named: Sequence[NamedPoint], points: Sequence[NamedPoint], frame: Frame) -> None:
    """Each name beside its point, where it covers the fewest points and names; the later names keep away from the
    earlier."""
    from matplotlib.transforms import Bbox

    places = [tuple(axis.transData.transform((point.x, point.y))) for point in points]
    taken: list[Bbox] = []
    step, inside = axis.figure.dpi / 72, axis.get_window_extent()
    for point in named:
        at = axis.transData.transform((point.x, point.y))
        best: tuple[float, tuple[float, float], str, str, Bbox] | None = None
        width, height = 0.58 * _NAME * step * len(frame.name(point.name)), 1.2 * _NAME * step
        for across, up, align, vertical in _AROUND:
            left = at[0] + across * step - width * _SHIFT[align]
            low = at[1] + up * step - height * _SHIFT[vertical]
            box = Bbox.from_bounds(left, low, width, height)
            covered = sum(box.contains(*place) for place in places) + 10.0 * sum(map(box.overlaps, taken))
            outside = box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1
            cost = covered + 5 * outside
            if best is None or cost < best[0]:
                best = cost, (across, up), align, vertical, box
        assert best is not None
        taken.append(best[4])
        axis.annotate(frame.name(point.name), (point.x, point.y), best[1], textcoords="offset points",
                      fontsize=_NAME, ha=best[2], va=best[3])  # fmt: skip


_NAME = 6.5  # points
_AROUND = tuple(
    (across * far, up * far, align, vertical) for far in (3, 7, 11, 16, 22) for across, up, align, vertical in (
        (1, 0, "left", "center"), (-1, 0, "right", "center"), (0, 1, "center", "bottom"), (0, -1, "center", "top"),
        (0.7, 0.7, "left", "bottom"), (-0.7, 0.7, "right", "bottom"), (0.7, -0.7, "left", "top"),
        (-0.7, -0.7, "right", "top"),
    )
)  # fmt: skip
_SHIFT = {"left": 0.0, "right": 1.0, "center": 0.5, "bottom": 0.0, "top": 1.0}
