"""The sheet that a picture is drawn on: its width on paper, fonts, panels, labels and legend."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from robustfl_bench.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")
WIDTHS = {"column": 3.3, "page": 6.9}
"""Inches of a column and of a page with two of them, in most conferences."""
_ACROSS = {"column": 2, "page": 4}
_LINE, _LETTER = 0.135, 0.055  # inches of a line and of a letter of the small print

_PRINT = {
    "font.size": 7, "axes.titlesize": 7, "axes.labelsize": 7, "xtick.labelsize": 6.5, "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5, "legend.title_fontsize": 6.5, "figure.titlesize": 6.5, "figure.labelsize": 7,
    "lines.linewidth": 1.1, "lines.markersize": 3.5, "errorbar.capsize": 1.5,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2,
    "ytick.major.size": 2, "axes.titlepad": 3, "axes.labelpad": 2, "grid.color": "#dddddd", "grid.linewidth": 0.5,
    "savefig.dpi": 300, "pdf.fonttype": 42, "ps.fonttype": 42,  # TrueType: IEEE refuses Type 3
}  # fmt: skip

_Arguments, _Drawn = ParamSpec("_Arguments"), TypeVar("_Drawn")


@dataclass(frozen=True)
class Look:
    """What the reader asks of a picture: a width of WIDTHS (by default that of a column for one or two panels), a title
    in place of the usual one, words in place of names (of lines and panels; ``x`` and ``y`` are the axes), and limits.
    """

    width: str = ""
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ylim: tuple[float, float] | None = None

    def name(self, label: str) -> str:
        """What stands for a name."""
        return self.labels.get(label, label)


def for_print(draw: Callable[_Arguments, _Drawn]) -> Callable[_Arguments, _Drawn]:
    """The function, with the fonts and lines of print."""

    @wraps(draw)
    def drawn(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Drawn:
        import matplotlib

        with matplotlib.rc_context(_PRINT):
            return draw(*arguments, **named)

    return drawn


def panels(
    number: int, look: Look, height: float = 1.35, across: int = 0, share_y: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, each ``height`` inches, at most ``across`` beside each other; ``finish`` completes it."""
    from matplotlib.figure import Figure

    width = look.width or ("column" if number <= _ACROSS["column"] else "page")
    across = min(across or number, number, _ACROSS[width])
    down = math.ceil(number / across)
    figure = Figure(figsize=(WIDTHS[width], height * down), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=share_y, squeeze=False).ravel()
    for place, axis in enumerate(grid):
        if place >= number:
            axis.remove()
        elif place + across >= number:  # nothing below it
            axis.tick_params(labelbottom=True)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)  # type: ignore[union-attr]
    return figure, list(grid[:number])


def finish(
    figure: Figure, look: Look, heading: str, x: str, y: str = "", legend: Mapping[str, Any] | None = None, key: str = ""
) -> Figure:
    """Add the title, the labels of the axes, and one legend for all panels; the figure grows by what they take."""
    width, height = figure.get_size_inches()
    letters = int(width / _LETTER)
    title = textwrap.wrap(heading, letters) if look.title is None else [look.title] if look.title else []
    if title:
        figure.suptitle("\n".join(title))
    figure.supxlabel(look.name("x") if "x" in look.labels else x)
    if y or "y" in look.labels:
        figure.supylabel("\n".join(textwrap.wrap(look.labels.get("y", y), int(0.8 * height / _LETTER) + 8)))
    rows = 0
    if legend:
        names = [look.name(name) for name in legend]
        columns = max(1, int(width / (0.45 + _LETTER * max(map(len, names)))))
        columns = math.ceil(len(names) / math.ceil(len(names) / columns))  # rows of about the same length
        rows = math.ceil(len(names) / columns) + bool(key)
        figure.legend(
            list(legend.values()), names, loc="outside lower center", ncols=columns, title=look.name(key) or None,
            frameon=False, columnspacing=1.2, handletextpad=0.5, borderpad=0,
        )  # fmt: skip
    figure.set_size_inches(width, height + _LINE * (len(title) + rows + 1.5))
    return figure


def grid(axis: Axes, title: str) -> None:
    """The title of a panel and thin lines behind what it shows."""
    axis.set_title("\n".join(textwrap.wrap(title, 34)))
    axis.grid(True)
    axis.set_axisbelow(True)


def whole_ticks(axis: Any, ticks: Sequence[float], limit: int = 7) -> None:
    """Ticks of an ``axis.xaxis`` at whole numbers: all that are drawn while they are few."""
    from matplotlib.ticker import MaxNLocator

    if len(set(ticks)) <= limit:
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
