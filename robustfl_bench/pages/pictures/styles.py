"""One colour, marker and line per method, the same in every figure."""

import zlib
from collections.abc import Iterator, Sequence

# Okabe and Ito's palette, told apart with every common colour blindness and, by lightness, in grey; yellow is left out
# because it vanishes on white paper.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#777777",
)  # fmt: skip
_COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, GREY)  # all but that of plain means
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d")

Dash = str | tuple[float, tuple[float, ...]]
_DASHES: tuple[Dash, ...] = ("-", "--", "-.", ":")
_OWN_DASHES: tuple[Dash, ...] = ((0, (6, 1, 1, 1, 1, 1)), (0, (3, 1, 3, 1, 1, 1)))  # of no method that is known here

Style = tuple[str, str, Dash]
"""Colour, marker, line."""

# Methods that the papers compare in one figure differ in colour and in marker. Names of one rule are joined by a bar.
# The place in its row gives a method its line, and its marker, counted from the first one of the row.
_METHODS = {
    BLACK: ("average|rar", "fedavg"),
    RED: ("boba", "ifca", "caf", "bulyan", "mda", "smea", "boba_es", "boba_wo_stage1", "boba_wo_stage2"),
    BLUE: ("raga", "mkrum", "signsgd", "bygars", "three_stage", "dnc", "huber", "clipped_trmean", "winsorized_mean"),
    GREEN: ("geomed", "brace", "rfa", "rage", "avgrej", "autogm", "median_of_means", "sequential_clipping"),
    ORANGE: ("coomed|median", "cfl", "b_mkrum", "selfrej", "meamed|mean_of_medians", "history_trmean", "lasa",
             "clipped_clustering"),
    PURPLE: ("trmean|trimmed_mean", "arfl", "byrd_saga", "zeno", "flame", "norm_bound", "chebyshev_mean", "rsa"),
    SKY: ("krum", "mca", "fltrust", "centered_clipping", "monna", "signguard", "foolsgold",
          "double_sequential_clipping"),
    GREY: ("server", "rlr", "b_krum", "server_mix", "cge", "magnitude_trmean", "beta_trmean"),
}  # fmt: skip
_FIRST = dict(zip(_METHODS, "oPp*v>^^", strict=True))


def _known() -> Iterator[tuple[str, Style]]:
    for colour, methods in _METHODS.items():
        for place, names in enumerate(methods):
            marker = _MARKERS[(place + _MARKERS.index(_FIRST[colour])) % len(_MARKERS)]
            for name in names.split("|"):
                yield name, (colour, marker, _DASHES[place % len(_DASHES)])


KNOWN: dict[str, Style] = dict(_known())
"""The methods that come with the package, by name."""


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A style for each name of a method.

    It is fixed for the known ones. That of another has a line that no known one has and follows from its name alone,
    unless two of one figure would be alike.
    """
    chosen = {name: KNOWN[name] for name in names if name in KNOWN}
    for name in sorted(set(names) - set(chosen)):
        start, count = zlib.crc32(name.encode()), len(_COLOURS) * len(_MARKERS)
        looks = (_numbered(start + step, _OWN_DASHES[step // count]) for step in range(count * len(_OWN_DASHES)))
        chosen[name] = next((style for style in looks if style not in chosen.values()), _numbered(start, ":"))
    return chosen


def series(names: Sequence[str]) -> dict[str, Style]:
    """A style for each value of a setting, by its place: from dark to light for numbers, else a colour for each."""
    if len(names) > 1 and all(map(is_number, names)):
        return {name: (colour, _MARKERS[place % len(_MARKERS)], "-")
                for place, (name, colour) in enumerate(zip(names, ramp(len(names)), strict=True))}  # fmt: skip
    return {name: _numbered(place, _DASHES[place % len(_DASHES)], step=1) for place, name in enumerate(names)}


def ramp(count: int) -> list[str]:
    """Colours from dark to light, for values that have an order; their lightness grows by equal steps."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](0.85 * place / max(1, count - 1))) for place in range(count)]


def _numbered(index: int, dash: Dash, step: int = len(_COLOURS)) -> Style:
    """A style by its number; the marker changes after ``step`` of them."""
    return _COLOURS[index % len(_COLOURS)], _MARKERS[index // step % len(_MARKERS)], dash


def is_number(name: str) -> bool:
    """Whether a word is a number; ``inf`` is one."""
    try:
        float(name)
    except ValueError:
        return False
    return True
