"""Named points in panels: two numbers of each name, with a colour and a marker for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustfl_bench.read.pages.pictures.canvas import PLAIN, Frame, finish, for_print, grid, panels
from robustfl_bench.read.pages.pictures.styles import series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
def draw(
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
            axis.xaxis.set_major_formatter("{x:g}")
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
        width, height = 2.9 * step * len(frame.name(point.name)), 6 * step
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
        axis.annotate(frame.name(point.name), (point.x, point.y), best[1], textcoords="offset points", fontsize=5,
                      ha=best[2], va=best[3])  # fmt: skip


_AROUND = tuple(
    (across * far, up * far, align, vertical) for far in (3, 7, 11, 16, 22) for across, up, align, vertical in (
        (1, 0, "left", "center"), (-1, 0, "right", "center"), (0, 1, "center", "bottom"), (0, -1, "center", "top"),
        (0.7, 0.7, "left", "bottom"), (-0.7, 0.7, "right", "bottom"), (0.7, -0.7, "left", "top"),
        (-0.7, -0.7, "right", "top"),
    )
)  # fmt: skip
_SHIFT = {"left": 0.0, "right": 1.0, "center": 0.5, "bottom": 0.0, "top": 1.0}
