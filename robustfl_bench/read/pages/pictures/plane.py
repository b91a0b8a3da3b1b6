"""Points in a plane: where aggregates lie among the updates of the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robustfl_bench.read.pages.pictures.canvas import PLAIN, Frame, finish, for_print, grid, panels
from robustfl_bench.read.pages.pictures.styles import styles

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CLIENTS = "honest updates"
"""The line of the clients' points."""


@for_print
def draw(points: pd.DataFrame, x: str, y: str, heading: str, frame: Frame = PLAIN) -> Figure:
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
