"""Heat maps: a number for each row and column, in panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustfl_bench.read.pages.pictures.canvas import (
    HIGHEST,
    PLAIN,
    WIDTHS,
    Axes,
    Figure,
    Frame,
    finish,
    for_print,
    plain_powers,
    sheet,
    whole_ticks,
    wrapped,
)

if TYPE_CHECKING:
    import numpy as np

_LEGIBLE = 0.2  # inches of a cell that holds a number, for each of its letters a third
_NARROW, _PANEL = 12, 1.1  # columns of a panel whose numbers are written; inches of a panel with more
_ROW, _LOW_ROW = 0.16, 0.13  # inches; a lower row leaves room for names that stand upright
_LETTER = 0.055  # inches
_NAMED = 0.1  # inches of a cell that has its name


@dataclass(frozen=True)
class HeatPanel:
    """A heat map of ``numbers`` (rows, columns), nan if unknown; ``marked`` cells have a frame."""

    title: str
    rows: Sequence[str]
    columns: Sequence[Any]
    numbers: np.ndarray
    marked: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Scale:
    """The scale of the colours. ``written`` puts a number into a cell. With ``unbounded``, larger ones are red."""

    label: str
    low: float
    high: float
    written: Callable[[float], str] = "{:.0f}".format
    log: bool = False
    unbounded: bool = False


@for_print
def draw(panels: Sequence[HeatPanel], scale: Scale, x: str, y: str, heading: str, frame: Frame = PLAIN) -> Figure:
    """The panels beside each other, with one scale; in cividis lightness grows with the value, in colour as in grey."""
    names = 0.25 + 0.05 * max(len(frame.name(row)) for panel in panels for row in panel.rows)  # inches
    rows, columns = max(len(panel.rows) for panel in panels), max(len(panel.columns) for panel in panels)
    letters = max((len(word) for panel in panels for word in _words(panel, scale, 0).values()), default=1)
    needed = columns * _LEGIBLE / 3 * letters if columns <= _NARROW else _PANEL
    for width in (WIDTHS[frame.width],) if frame.width else WIDTHS.values():  # the narrower, if it holds the numbers
        room = width - names - 0.6
        across = max(1, min(len(panels), int(room / min(room, max(0.6, needed)))))
        down = math.ceil(len(panels) / across)
        below = max(_upright(panel.columns, room / across / len(panel.columns), frame) for panel in panels)
        height = 0.35 + max(_ROW * rows, _LOW_ROW * rows + below)
        if needed <= room and height * down <= HIGHEST:
            break
    figure = sheet(width, height * down)
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    image = None
    for axis, panel in zip(axes, panels, strict=False):
        image = _drawn(axis, panel, scale, room / across / len(panel.columns), frame)
    for axis in axes[len(panels) :]:
        axis.remove()
    assert image is not None
    extend = "max" if scale.unbounded else "neither"
    bar = figure.colorbar(
        image,
        ax=list(axes[: len(panels)]),
        label=wrapped(scale.label, height * down),
        aspect=25,
        pad=0.015,
        extend=extend,
    )
    if scale.log:
        plain_powers(bar.ax.yaxis)
        bar.ax.yaxis.set_minor_formatter("")
    return finish(figure, list(axes[: len(panels)]), frame, heading, x, y)


def draw_on(axis: Axes, panel: HeatPanel, scale: Scale, x: str, y: str) -> None:
    """Draw a panel on an axis of the caller, with its labels and a colour bar."""
    figure = axis.figure
    inches = axis.get_window_extent().width / figure.dpi
    image = _drawn(axis, panel, scale, inches / len(panel.columns), PLAIN)
    axis.set_xlabel(PLAIN.axis("x", x))
    axis.set_ylabel(PLAIN.axis("y", y))
    figure.colorbar(image, ax=axis, label=scale.label, extend="max" if scale.unbounded else "neither")


def _drawn(axis: Axes, panel: HeatPanel, scale: Scale, cell: float, frame: Frame) -> Any:
    """Draw a panel whose cells are ``cell`` inches wide; returns the image, for a colour bar."""
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    colours = (
        colormaps["cividis"].resampled(100).with_extremes(bad="#bbbbbb", over="#b2182b" if scale.unbounded else None)
    )
    norm = (LogNorm if scale.log else Normalize)(scale.low, scale.high)
    shown = np.where(np.isinf(panel.numbers), 1e30, panel.numbers)
    shown = shown.clip(min=scale.low) if scale.log else shown
    image = axis.imshow(shown, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
    _write(axis, panel, scale, image, cell)
    axis.set_title(wrapped(frame.name(panel.title), cell * len(panel.columns)))
    axis.set_yticks(range(len(panel.rows)), [frame.name(row) for row in panel.rows])
    _ticks(axis, panel.columns, cell, frame)
    axis.set_xlim(-0.5, len(panel.columns) - 0.5)
    return image


def _upright(columns: Sequence[Any], cell: float, frame: Frame) -> float:
    """The height of the names of the columns in inches if they stand upright, because they are wider than a cell."""
    longest = _LETTER * max(len(frame.name(str(name))) for name in columns)
    return longest if longest > cell >= _NAMED else 0.0


def _ticks(axis: Axes, columns: Sequence[Any], cell: float, frame: Frame) -> None:
    """The names of the columns: all of them if they fit, else some whole numbers."""
    from matplotlib.ticker import FuncFormatter

    names = [frame.name(str(name)) for name in columns]
    if cell >= _NAMED:
        axis.set_xticks(range(len(names)), names)
        if _upright(columns, cell, frame):
            axis.tick_params(axis="x", labelrotation=90)
    else:
        whole_ticks(axis.xaxis, range(len(names)), 6)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda at, _: names[int(at)] if 0 <= at < len(names) else ""))


def _words(panel: HeatPanel, scale: Scale, cell: float) -> dict[tuple[int, ...], str]:
    """The words of the numbers by place, as short as cells of this width in inches ask."""
    import numpy as np

    numbers = {place: float(number) for place, number in np.ndenumerate(panel.numbers) if not math.isnan(number)}
    words = {place: scale.written(number) for place, number in numbers.items()}
    if scale.high - scale.low == 100 and cell < _LEGIBLE / 3 * max(map(len, words.values()), default=1):
        words = {place: f"{number:.0f}" for place, number in numbers.items()}
    return words


def _write(axis: Axes, panel: HeatPanel, scale: Scale, image: Any, cell: float) -> None:
    """The numbers in their cells, of percentages without decimals where these do not fit, and frames around those that
    are marked."""
    import numpy as np
    from matplotlib.patches import Rectangle

    words = _words(panel, scale, cell)
    if cell < _LEGIBLE / 3 * max(map(len, words.values()), default=1):
        words = {}
    for (row, column), word in words.items():
        *rgb, _ = image.cmap(image.norm(image.get_array()[row, column]))
        ink = "black" if np.dot(rgb, (0.3, 0.6, 0.1)) > 0.5 else "white"
        axis.text(column, row, word, ha="center", va="center", fontsize=6.5, color=ink)
    for row, column in panel.marked:
        axis.add_patch(
            Rectangle((column - 0.46, row - 0.44), 0.92, 0.88, fill=False, edgecolor="#D55E00", linewidth=1.2)
        )
