"""One colour, marker and line per method, the same in every figure."""

import zlib

# Okabe and Ito's palette, told apart with every common colour blindness and, by lightness, in grey; yellow is left out
# because it vanishes on white paper.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#777777",
)  # fmt: skip
_COLOURS = (BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_LINES = ("-", "--", "-.", ":")

Style = tuple[str, str, str]
"""Colour, marker, line."""

_KNOWN: dict[str, Style] = {
    # plain means
    "average": (BLACK, "o", "-"), "rar": (BLACK, "o", "-"), "fedavg": (BLACK, "s", "--"),
    "server": (GREY, "s", "-"),
    # coordinate by coordinate
    "coomed": (ORANGE, "^", "-"), "median": (ORANGE, "^", "-"),
    "trmean": (ORANGE, "v", "--"), "trimmed_mean": (ORANGE, "v", "--"), "signsgd": (ORANGE, "X", ":"),
    "rlr": (ORANGE, "P", "-."),
    # by distances
    "krum": (SKY, "D", "-"), "mkrum": (SKY, "P", "--"), "b_krum": (SKY, "<", "-."), "b_mkrum": (SKY, ">", ":"),
    "geomed": (GREEN, "o", "-"), "rfa": (GREEN, "s", "--"), "mca": (GREEN, "^", "-."), "raga": (GREEN, "*", "-"),
    # with server data or losses
    "fltrust": (PURPLE, "o", "-"), "zeno": (PURPLE, "^", "--"), "bygars": (PURPLE, "D", "-."),
    "selfrej": (PURPLE, "v", ":"), "avgrej": (PURPLE, "X", "-"),
    # those the five papers propose
    "rage": (BLUE, "s", "-"), "arfl": (BLUE, "D", "--"), "brace": (BLUE, "^", "-"), "cfl": (BLUE, "v", "-."),
    "byrd_saga": (BLUE, "P", ":"),
    "boba": (RED, "*", "-"), "boba_es": (RED, "o", "--"), "boba_wo_stage1": (RED, "<", "-."),
    "boba_wo_stage2": (RED, ">", ":"),
}  # fmt: skip


def styles(names: list[str]) -> dict[str, Style]:
    """A style for each name: fixed for the known ones, else from the name itself, moved on while it is taken."""
    chosen = {name: _KNOWN[name] for name in names if name in _KNOWN}
    for name in names:
        if name not in chosen:
            start = zlib.crc32(name.encode())
            free = (_numbered(start + step) for step in range(len(_COLOURS) * len(_MARKERS) * len(_LINES)))
            chosen[name] = next((style for style in free if style not in chosen.values()), _numbered(start))
    return chosen


def _numbered(index: int) -> Style:
    return _COLOURS[index % 8], _MARKERS[index // 8 % len(_MARKERS)], _LINES[index // 80 % len(_LINES)]
