"""Horizontal bars: numbers of many names, for one or several lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from robustfl_bench.read.pages.pictures.canvas import PLAIN, Frame, finish, for_print, grid, panels
from robustfl_bench.read.pages.pictures.styles import BLUE, series

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_ROW = 0.12  # inches of a name, and of each further bar


@for_print
def draw(
    points: pd.DataFrame, x: str, y: str, heading: str, log: bool = False, colours: Mapping[str, str] | None = None,
    frame: Frame = PLAIN,
) -> Figure:  # fmt: skip
    """The means of points (``curves.COLUMNS``) against the words of their ``x``, the first on top.

    A bar for each line; of a single one, ``colours`` gives that of some words.
    """
    words, lines = (list(dict.fromkeys(points[column])) for column in ("x", "line"))
    figure, (axis,) = panels(1, frame, height=0.3 + _ROW * len(words) * max(1.0, 0.6 * len(lines)))
    thick = 0.8 / len(lines)
    drawn = series(lines)
    handles = {}
    for number, (line, rows) in enumerate(points.groupby("line", sort=False)):
        places = [words.index(word) + (number - (len(lines) - 1) / 2) * thick for word in rows["x"]]
        colour = drawn[str(line)][0] if len(lines) > 1 else [(colours or {}).get(word, BLUE) for word in rows["x"]]
        handles[str(line)] = axis.barh(places, rows["mean"], thick, color=colour)
    axis.set_yticks(range(len(words)), [frame.name(str(word)) for word in words])
    axis.set_ylim(len(words) - 0.4, -0.6)
    if log:
        axis.set_xscale("log")
    grid(axis, "")
    axis.grid(visible=False, axis="y")
    return finish(figure, [axis], frame, heading, x, y, handles if len(lines) > 1 else None)
