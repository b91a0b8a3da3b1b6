"""One colour, marker and line per method, the same in every figure."""

import zlib
from collections.abc import Mapping, Sequence
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
_ALL_DASHES: tuple[Dash, ...] = (
    *_DASHES,
    (0, (8, 2.5)),
    (0, (5, 1.5, 1, 1.5, 1, 1.5)),
    (0, (1, 3.5)),
)  # the last three tell further lines apart

Style = tuple[str, str, Dash]
"""Colour, marker, line."""

COMPARED: dict[str, Style] = {
    "average": (BLACK, "o", "-"), "fedavg": (BLACK, "s", "--"),
    "boba": (RED, "P", "-"), "ifca": (RED, "X", "--"),
    "raga": (BLUE, "p", "-"), "mkrum": (BLUE, "h", "--"), "signsgd": (BLUE, "d", "-."), "bygars": (BLUE, "o", ":"),
    "three_stage": (BLUE, "s", "-"),
    "geomed": (GREEN, "*", ":"), "brace": (GREEN, "<", "-"), "rfa": (GREEN, ">", "-."), "avgrej": (GREEN, "h", "-."),
    "coomed": (ORANGE, "v", "--"), "cfl": (ORANGE, "P", "--"), "selfrej": (ORANGE, "*", "--"),
    "trmean": (PURPLE, ">", "-."), "arfl": (PURPLE, "p", ":"), "byrd_saga": (PURPLE, "h", "-."),
    "zeno": (PURPLE, "d", "-."),
    "krum": (SKY, "^", "-"), "mca": (SKY, "D", ":"), "fltrust": (SKY, "v", ":"),
    "server": (GREY, "^", "--"), "rlr": (GREY, "D", "--"),
}  # fmt: skip
"""The styles of the methods that the papers compare: those of one figure differ in colour, in marker and, where
they are alike in grey, in dashes."""


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A style for each method of a figure; aliases of one rule share it.

    The methods of COMPARED have theirs. That of any other method follows from a hash of its name, so that it is the
    same in every figure; only where another method of the figure has its marker, it gets the next one with a free
    marker. Lines that would look alike in grey get other dashes, while there are any, see ``told_apart``.
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
    in_grey = told_apart(chosen)
    return {name: in_grey[rule] for name, rule in rules.items()}


def told_apart(looks: Mapping[str, Style]) -> dict[str, Style]:
    """The styles, where a line of about the lightness and with the dashes of an earlier one gets dashes that are free.
    The earlier ones are those of COMPARED, in its order, then the others as they come."""
    ordered = sorted(looks, key=lambda name: [*COMPARED].index(name) if name in COMPARED else len(COMPARED))
    taken = set[tuple[int, Dash]]()
    apart = dict(looks)
    for name in ordered:
        colour, marker, dash = looks[name]
        shade = _shade(colour)
        others = (other for other in _ALL_DASHES if (colour, marker, other) not in looks.values())
        apart[name] = colour, marker, next((own for own in (dash, *others) if (shade, own) not in taken), dash)
        taken.add((shade, apart[name][2]))
    return apart


def _shade(colour: str) -> int:
    """The lightness of a colour in grey, in few steps: colours of one step look alike."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return int((0.2126 * red + 0.7152 * green + 0.0722 * blue) > 0.5) + (colour != BLACK)


def series(names: Sequence[str]) -> dict[str, Style]:
    """A style for each value of a setting, by its place, in colours from dark to light for numbers."""
    if len(names) > 1 and all(map(is_number, names)):
        colours = ramp(len(names))
    else:
        colours = [_COLOURS[place % len(_COLOURS)] for place in range(len(names))]
    looks = zip(colours, cycle(_MARKERS), cycle(_ALL_DASHES), strict=False)
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
