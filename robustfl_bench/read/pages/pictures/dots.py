"""Two numbers of many names on horizontal lines: one as it is, one with its interval, and lines of reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robustfl_bench.read.pages.pictures.canvas import PLAIN, Frame, finish, for_print, grid, panels
from robustfl_bench.read.pages.pictures.styles import BLACK, BLUE, GREEN, GREY, RED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW = 0.12  # inches
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
def draw(shown: Sequence[DotPanel], first: str, second: str, x: str, heading: str, frame: Frame = PLAIN) -> Figure:
    """The panels beside each other. ``first`` and ``second`` describe the two numbers, ``x`` their unit. A name has the
    row of the first panel that shows it.
    """
    names = list(dict.fromkeys(dot.name for panel in shown for dot in panel.dots))
    figure, axes = panels(len(shown), frame, height=0.3 + _ROW * len(names))
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
