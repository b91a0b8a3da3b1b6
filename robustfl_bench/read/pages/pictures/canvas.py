"""The sheet that a picture is drawn on: its width on paper, fonts, panels, labels and legend."""

from __future__ import annotations

import hashlib
import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from robustfl_bench.base.errors import ConfigError, writable
from robustfl_bench.runner.config import names

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = object  # for annotations: matplotlib is imported when a picture is drawn

SUFFIXES = (".png", ".pdf", ".svg")
WIDTHS = {"column": 3.3, "page": 6.9}
"""Inches of a column and of a page with two of them, in most conferences."""
_ACROSS = {"column": 2, "page": 5}
_IN_COLUMN = 12  # panels: more are as wide as a page
HIGHEST = 9.2
"""Inches of a page, and on a phone less than two screens of a picture as wide as a column."""
_LINE, _LETTER = 0.135, 0.055  # inches of a line and of a letter of the small print

PRINTED, SHOWN = 300, 200
"""Dots in an inch of a PNG file: for print, and for a page on a screen, half the size."""
_COLOURS = {PRINTED: 256, SHOWN: 128}
_PIXELS = "SHA-256 of the pixels"  # the note in a PNG file

_PRINT: dict[Any, Any] = {
    "font.size": 7, "axes.titlesize": 7, "axes.labelsize": 7, "xtick.labelsize": 6.5, "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5, "legend.title_fontsize": 6.5, "figure.titlesize": 6.5, "figure.labelsize": 7,
    "lines.linewidth": 1.1, "lines.markersize": 3.5, "errorbar.capsize": 1.5,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2,
    "ytick.major.size": 2, "axes.titlepad": 3, "axes.labelpad": 2, "grid.color": "#dddddd", "grid.linewidth": 0.5,
    "savefig.dpi": PRINTED, "pdf.fonttype": 42, "ps.fonttype": 42,  # TrueType: IEEE refuses Type 3
}  # fmt: skip

_Arguments = ParamSpec("_Arguments")
_Drawn = TypeVar("_Drawn")


@dataclass(frozen=True)
class Frame:
    """The format of a picture: a width of WIDTHS (by default that of a column, which a phone shows, too, unless the
    picture would be higher than a page), a title in place of the usual one, words in place of labels, and limits.
    Labels are those of lines and panels, ``x`` and ``y`` of the axes, and ``key`` of the legend.
    """

    width: str = ""
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ylim: tuple[float, float] | None = None

    def at(self, width: str) -> Frame:
        """The format with this width, unless it has one."""
        return replace(self, width=self.width or width)

    def name(self, label: str) -> str:
        """The words for a label: those of ``labels``, else with the names that readers know."""
        return drawable(names.readable(label, self.labels))

    def axis(self, place: str, key: str) -> str:
        """The words on the axis ``x`` or ``y``, of which ``key`` is a setting or the title."""
        return self.labels[place] if place in self.labels else names.of_axis(key)


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
    """A figure and its panels, each ``height`` inches, at most ``across`` in a row; ``finish`` completes it. With
    ``share_y`` for a row, a row that is too wide breaks into rows of the same length, if it can."""
    most = _ACROSS["column"]
    fits = number <= most or (number <= _IN_COLUMN and height * number / most <= HIGHEST)
    width = frame.width or ("column" if fits else "page")
    whole_row = across or number
    across = min(whole_row, number, _ACROSS[width] + (share_y == "row" and width == "column"))
    fewest = 2 if share_y == "row" else across // 2 + 1
    full = [count for count in range(across, fewest - 1, -1) if whole_row % count == 0]  # rows without a gap, if any
    across = full[0] if full else math.ceil(number / math.ceil(number / across))
    down = math.ceil(number / across)
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
            axis.set_xlabel(wrapped(frame.axis("x", x), width / across) if row == down - 1 else "")
        if column == 0 and not axis.get_ylabel():
            axis.set_ylabel(frame.axis("y", y))
        axis.set_ylabel(wrapped(axis.get_ylabel(), height / down))
    rows = _legend(figure, axes, frame, legend, key, across * down - len(places)) if legend else 0
    figure.set_size_inches(width, height + _LINE * (len(title.splitlines()) + rows + 1.5))
    return figure


def _legend(figure: Figure, axes: Sequence[Axes], frame: Frame, legend: Mapping[str, Any], key: str, blank: int) -> int:
    """Add the legend: in the ``blank`` places at the end of the last row of panels if it fits, else below all of them.
    Returns the number of lines that it needs there."""
    words = [frame.name(name) for name in legend]
    look = {"title": frame.axis("key", key) or None, "frameon": False, "columnspacing": 1.2, "handletextpad": 0.5}
    (width, height), cells = figure.get_size_inches(), axes[0].get_gridspec()
    assert cells is not None
    columns, rows = _columns(words, width * blank / cells.ncols, key)
    if blank and rows * _LINE <= height / cells.nrows:
        place = figure.add_subplot(cells[cells.nrows - 1, cells.ncols - blank :])
        place.axis("off")
        place.legend(list(legend.values()), words, loc="center", ncols=columns, **look)
        return 0
    columns, rows = _columns(words, width, key)
    figure.legend(list(legend.values()), words, loc="outside lower center", ncols=columns, borderpad=0, **look)
    return rows


def _columns(words: Sequence[str], width: float, key: str) -> tuple[int, int]:
    """The columns of a legend in this width, and its lines: rows of about the same length."""
    most = max(1, int(width / (0.45 + _LETTER * max(map(len, words)))))
    rows = math.ceil(len(words) / most)
    return math.ceil(len(words) / rows), rows + bool(key)


def grid(axis: Axes, title: str) -> None:
    """Add the title of a panel and thin grid lines behind its content."""
    axis.set_title(wrapped(title, min(34 * _LETTER, room(axis) + 0.2)))
    axis.grid(True)
    axis.set_axisbelow(True)


def wrapped(words: str, inches: float) -> str:
    """The words in lines that are, in the small print, at most ``inches`` wide or have nine letters."""
    return "\n".join(map(drawable, textwrap.wrap(words, max(9, int(inches / _LETTER)), break_on_hyphens=False)))


def drawable(words: str) -> str:
    """The words as matplotlib draws them: formulas between dollar signs, or plain dollar signs if it cannot read them
    as formulas."""
    from matplotlib.mathtext import MathTextParser

    if "$" in words:
        try:
            MathTextParser("path").parse(words)
        except ValueError:
            return re.sub(r"(?<!\\)\$", r"\\$", words)
    return words


def room(axis: Axes) -> float:
    """About the inches that the content of a panel has across, before there is a layout."""
    cells, figure = axis.get_gridspec(), axis.get_figure(root=True)
    assert figure is not None
    return float(figure.get_size_inches()[0]) / (cells.ncols if cells else 1) - 0.45


def spaced(places: Sequence[float], words: Sequence[str], inches: float) -> list[int]:
    """Which of the labels are written at ascending places of an axis of this length, so that none touches another."""
    shown, end = list[int](), -math.inf
    reach = (places[-1] - places[0]) or 1.0
    for number, (place, word) in enumerate(zip(places, words, strict=True)):
        middle, half = (place - places[0]) / reach * inches, _LETTER * (len(word) + 1) / 2
        if middle - half >= end:
            shown.append(number)
            end = middle + half
    return shown


def whole_ticks(axis: Any, ticks: Sequence[float] = (), limit: int = 7) -> None:
    """Ticks of an ``axis.xaxis`` at whole numbers: all that are drawn while they are few and have room."""
    from matplotlib.ticker import MaxNLocator

    limit = min(limit, max(3, int(room(axis.axes) / 0.22)))
    places = sorted(set(ticks))
    if 0 < len(places) <= limit:
        axis.set_ticks([places[at] for at in spaced(places, [f"{place:g}" for place in places], room(axis.axes))])
    else:
        axis.set_major_locator(MaxNLocator(limit - 1, integer=True))


def plain_powers(axis: Any) -> None:
    """Label the ticks of a logarithmic ``axis.xaxis`` as 0.01 and 1e-05: exponents are too small to read."""
    from matplotlib.ticker import FuncFormatter, LogFormatter

    which = LogFormatter(minor_thresholds=(1, 0.4))
    which.set_axis(axis)

    def written(number: float, place: int | None = None) -> str:
        which.set_locs()
        return f"{number:g}" if which(number, place) else ""

    axis.set_major_formatter(FuncFormatter(written))
    axis.set_minor_formatter(FuncFormatter(written))


def check_format(output: str | Path, option: str = "--output") -> Path:
    """The file of a picture. Raises ConfigError unless its suffix is one of SUFFIXES."""
    path = Path(output)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{option} must end in {', '.join(SUFFIXES)}, got {str(output)!r}")
    return path


@for_print
def save(figure: Figure, output: str | Path, option: str = "--output", dpi: int = PRINTED) -> Path:
    """Write the figure in the format of the name's suffix. Raises ConfigError when that cannot be done; ``option`` is
    what gave the name. A PNG file that is the same picture already stays as it is: version control keeps every copy."""
    path = check_format(output, option)
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".png":
            _save_png(figure, path, dpi)
        else:
            figure.savefig(path)
    return path


def _save_png(figure: Figure, path: Path, dpi: int) -> None:
    """Write the figure with a palette, a third of the size, and the SHA-256 of the pixels before that, unless the file
    has the same."""
    from PIL import Image, PngImagePlugin

    drawn, written = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    image = Image.open(drawn).convert("RGB")
    pixels = f"{image.size} {hashlib.sha256(image.tobytes()).hexdigest()}"
    with suppress(OSError), Image.open(path) as earlier:  # none, or no picture
        if earlier.info.get(_PIXELS) == pixels:
            return
    note = PngImagePlugin.PngInfo()
    note.add_text(_PIXELS, pixels)
    palette = image.quantize(_COLOURS[dpi], Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette.save(written, "png", optimize=True, pnginfo=note, dpi=(dpi, dpi))
    path.write_bytes(written.getvalue())
