"""Numbers, intervals and lists in words, as the arena's tables and sentences have them."""

import math
from collections.abc import Iterable

from robustfl_bench.read.runs.statistics import Interval
from robustfl_bench.read.tables.sheets import Printed


def number(value: float, digits: int = 1) -> str:
    """A number; empty if unknown."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def bounds(interval: Interval | None) -> str:
    """An interval in brackets; empty if unknown."""
    return f" ({interval.low:.0f} to {interval.high:.0f})" if interval is not None else ""


def span(least: str, largest: str) -> str:
    """Two ends as a phrase; once if they are the same."""
    return least if least == largest else f"{least} to {largest}"


def sentence(words: str) -> str:
    """Words as they begin a sentence."""
    return words[0].upper() + words[1:]


def listed(names: Iterable[str], most: int = 0) -> str:
    """Names as a phrase; of more than ``most``, if given, the first and the number of the others."""
    words = list(names)
    if most and len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "none"


def cells(values: Iterable[str]) -> list[Printed]:
    """The cells of a row."""
    return list(map(Printed, values))


def block(name: str, columns: int) -> list[Printed]:
    """The row that names the block of rows below it."""
    return cells([name, *[""] * (columns - 1)])
