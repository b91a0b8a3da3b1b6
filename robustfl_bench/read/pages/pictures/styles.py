"""One colour, marker and line per method, the same in every figure."""

import zlib
from collections.abc import Sequence
from itertools import cycle

from robustfl_bench.runner.config import options

# Okabe and Ito's palette, told apart with every common colour blindness and, by lightness, in grey; yellow is left out
# because it vanishes on white paper.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#777777",
)  # fmt: skip
_COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, GREY)  # all but that of plain means
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d")

Dash = str | tuple[float, tuple[float, ...]]
_DASHES: tuple[Dash, ...] = ("-", "--", "-.", ":")

Style = tuple[str, str, Dash]
"""Colour, marker, line."""

COMPARED: dict[str, Style] = {
    "average": (BLACK, "o", "-"), "fedavg": (BLACK, "s", "--"),
    "boba": (RED, "P", "-"), "ifca": (RED, "X", "--"),
    "raga": (BLUE, "p", "-"), "mkrum": (BLUE, "h", "--"), "signsgd": (BLUE, "d", "-."), "bygars": (BLUE, "o", ":"),
    "three_stage": (BLUE, "s", "-"),
    "geomed": (GREEN, "*", "-"), "brace": (GREEN, "<", "--"), "rfa": (GREEN, ">", "-."), "avgrej": (GREEN, "h", "-"),
    "coomed": (ORANGE, "v", "-"), "cfl": (ORANGE, "P", "--"), "selfrej": (ORANGE, "*", ":"),
    "trmean": (PURPLE, ">", "-"), "arfl": (PURPLE, "p", "--"), "byrd_saga": (PURPLE, "h", "-."),
    "zeno": (PURPLE, "d", ":"),
    "krum": (SKY, "^", "-"), "mca": (SKY, "D", "--"), "fltrust": (SKY, "v", "-."),
    "server": (GREY, "^", "-"), "rlr": (GREY, "D", "--"),
}  # fmt: skip
"""The styles of the methods that the papers compare: those of one figure differ in colour and in marker."""


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A style for each method of a figure; aliases of one rule share it.

    The methods of COMPARED have theirs. That of any other method follows from a hash of its name, so that it is the
    same in every figure; only where another method of the figure has its marker, which is what remains in grey, it gets
    the next one with a free marker.
    """
    rules = {name: options.original("aggregator", name) for name in names}
    chosen = {rule: COMPARED[rule] for rule in rules.values() if rule in COMPARED}
    for rule in sorted(set(rules.values()) - set(chosen)):
        start, taken = zlib.crc32(rule.encode()), list(chosen.values())
        looks = [_numbered(start + step) for step in range(len(_COLOURS) * len(_MARKERS) * len(_DASHES))]
        own_marker = [style for style in looks if style[1] not in {marker for _, marker, _ in taken}]
        own_pair = [style for style in looks if style[:2] not in {style[:2] for style in taken}]
        unused = [style for style in looks if style not in taken]
        chosen[rule] = (own_marker or own_pair or unused or looks)[0]
    return {name: chosen[rule] for name, rule in rules.items()}


def series(names: Sequence[str]) -> dict[str, Style]:
    """A style for each value of a setting, by its place: from dark to light for numbers, else a colour for each."""
    if len(names) > 1 and all(map(is_number, names)):
        return {name: (colour, _MARKERS[place % len(_MARKERS)], "-")
                for place, (name, colour) in enumerate(zip(names, ramp(len(names)), strict=True))}  # fmt: skip
    looks = zip(cycle(_COLOURS), cycle(_MARKERS), cycle(_DASHES), strict=False)
    return dict(zip(names, looks, strict=False))


def ramp(count: int) -> list[str]:
    """Colours from dark to light, for values that have an order; their lightness grows by equal steps."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](0.85 * place / max(1, count - 1))) for place in range(count)]


def _numbered(index: int) -> Style:
    """A style by its number: the colour changes first, then the marker, then the line."""
    markers, lines = index // len(_COLOURS), index // (len(_COLOURS) * len(_MARKERS))
    return _COLOURS[index % len(_COLOURS)], _MARKERS[markers % len(_MARKERS)], _DASHES[lines % len(_DASHES)]


def is_number(name: str) -> bool:
    """Whether a word is a number; ``inf`` is one."""
    try:
        float(name)
    except ValueError:
        return False
    return True
