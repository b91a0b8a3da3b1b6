"""The sheet that a picture is drawn on: its width on paper, fonts, panels, labels and legend."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from robustfl_bench.base.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")
WIDTHS = {"column": 3.3, "page": 6.9}
"""Inches of a column and of a page with two of them, in most conferences."""
_ACROSS = {"column": 2, "page": 4}
_LINE, _LETTER = 0.135, 0.055  # inches of a line and of a letter of the small print

_PRINT: dict[Any, Any] = {
    "font.size": 7, "axes.titlesize": 7, "axes.labelsize": 7, "xtick.labelsize": 6.5, "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5, "legend.title_fontsize": 6.5, "figure.titlesize": 6.5, "figure.labelsize": 7,
    "lines.linewidth": 1.1, "lines.markersize": 3.5, "errorbar.capsize": 1.5,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2,
    "ytick.major.size": 2, "axes.titlepad": 3, "axes.labelpad": 2, "grid.color": "#dddddd", "grid.linewidth": 0.5,
    "savefig.dpi": 300, "pdf.fonttype": 42, "ps.fonttype": 42,  # TrueType: IEEE refuses Type 3
}  # fmt: skip

_Arguments = ParamSpec("_Arguments")
_Drawn = TypeVar("_Drawn")


@dataclass(frozen=True)
class Frame:
    """The format of a picture: a width of WIDTHS (by default that of a column for one or two panels), a title
    in place of the usual one, words in place of names (of lines and panels; ``x`` and ``y`` are the axes), and limits.
    """

    width: str = ""
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ylim: tuple[float, float] | None = None

    def name(self, label: str) -> str:
        """The words that replace a name, ``readable``."""
        return readable(self.labels.get(label, label))


PLAIN = Frame()
"""The default format."""


def for_print(draw: Callable[_Arguments, _Drawn]) -> Callable[_Arguments, _Drawn]:
    """The function, with the fonts and lines of print."""

    @wraps(draw)
    def drawn(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Drawn:
        import matplotlib

        with matplotlib.rc_context(_PRINT):
            return draw(*arguments, **named)

    return drawn


def sheet(width: float, height: float) -> Figure:
    """An empty figure, in inches, that leaves little room between its parts."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02))


def panels(
    number: int, frame: Frame, height: float = 1.35, across: int = 0, share_y: bool | Literal["row"] = True
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, each ``height`` inches, at most ``across`` in a row; ``finish`` completes it."""
    width = frame.width or ("column" if number <= _ACROSS["column"] else "page")
    across = min(across or number, number, _ACROSS[width])
    down = math.ceil(number / across)
    across = math.ceil(number / down)
    figure = sheet(WIDTHS[width], height * down)
    grid = figure.subplots(down, across, sharex=True, sharey=share_y, squeeze=False).ravel()
    for axis in grid[number:]:
        axis.remove()
    return figure, list(grid[:number])


def finish(
    figure: Figure, axes: Sequence[Axes], frame: Frame, heading: str, x: str, y: str = "",
    legend: Mapping[str, Any] | None = None, key: str = "",
) -> Figure:  # fmt: skip
    """Add the title, the labels of the axes, and one legend for all panels; the figure grows by what they take."""
    width, height = figure.get_size_inches()
    title = wrapped(heading if frame.title is None else frame.title, width)
    if title:
        figure.suptitle(title)
    places = {(spec.colspan.start, spec.rowspan.start): axis for axis in axes if (spec := axis.get_subplotspec())}
    across, down = (len({place[axis] for place in places}) for axis in (0, 1))
    for (column, row), axis in places.items():
        if (column, row + 1) not in places:
            axis.tick_params(labelbottom=True)
            axis.set_xlabel(wrapped(frame.labels.get("x", x), width / across))
        if column == 0 and not axis.get_ylabel():
            axis.set_ylabel(frame.labels.get("y", y))
        axis.set_ylabel(wrapped(axis.get_ylabel(), height / down))
    rows = 0
    if legend:
        names = [frame.name(name) for name in legend]
        columns = max(1, int(width / (0.45 + _LETTER * max(map(len, names)))))
        columns = math.ceil(len(names) / math.ceil(len(names) / columns))  # rows of about the same length
        rows = math.ceil(len(names) / columns) + bool(key)
        figure.legend(
            list(legend.values()), names, loc="outside lower center", ncols=columns, title=frame.name(key) or None,
            frameon=False, columnspacing=1.2, handletextpad=0.5, borderpad=0,
        )  # fmt: skip
    figure.set_size_inches(width, height + _LINE * (len(title.splitlines()) + rows + 1.5))
    return figure


def grid(axis: Axes, title: str) -> None:
    """Add the title of a panel and thin grid lines behind its content."""
    axis.set_title(wrapped(title, 34 * _LETTER))
    axis.grid(True)
    axis.set_axisbelow(True)


def wrapped(words: str, inches: float) -> str:
    """The words with line breaks, so that each line in the small print is at most ``inches`` wide."""
    return "\n".join(map(readable, textwrap.wrap(words, int(inches / _LETTER), break_on_hyphens=False)))


def readable(words: str) -> str:
    """The words as matplotlib draws them: formulas between dollar signs, or plain dollar signs if it cannot read them
    as formulas."""
    from matplotlib.mathtext import MathTextParser

    if "$" in words:
        try:
            MathTextParser("path").parse(words)
        except ValueError:
            return re.sub(r"(?<!\\)\$", r"\\$", words)
    return words


def whole_ticks(axis: Any, ticks: Sequence[float] = (), limit: int = 7) -> None:
    """Ticks of an ``axis.xaxis`` at whole numbers: all that are drawn while they are few."""
    from matplotlib.ticker import MaxNLocator

    if 0 < len(set(ticks)) <= limit:
        axis.set_ticks(sorted(set(ticks)))
    else:
        axis.set_major_locator(MaxNLocator(limit - 1, integer=True))


@for_print
def save(figure: Figure, output: str | Path, option: str = "--output") -> Path:
    """Write the figure in the format of the name's suffix. Raises ConfigError when that cannot be done; ``option`` is
    what gave the name."""
    path = Path(output)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{option} must end in {', '.join(SUFFIXES)}, got {str(output)!r}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    return path
