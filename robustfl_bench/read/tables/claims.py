"""What the file of a paper says besides numbers: claims, as formulas over the cells of its tables, and reasons of gaps.

A formula is ``cells relation cells``, with ``<``, ``<=``, ``>`` or ``>=``; ``cells`` is ``row / column``, ``block / row
/ column`` or a number. The README in papers/ explains what may stand for a row and a column. This module finds which
cells a formula compares, not what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import filter as matching
from typing import Any

from robustfl_bench.base.errors import ConfigError

Key = tuple[str, str, str]
"""Block, row and column of a cell."""

_FORMULA = re.compile(r"(?P<left>.+?) (?P<relation><=?|>=?) (?P<right>.+?)(?: (?P<sign>[+-]) (?P<shift>[\d.]+))?")
_EXTREME = re.compile(r"(max|min)\((.*)\)")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_EVERY, _OTHERS, _SAME, _BUT, _BETWEEN = "*", "others", "same", " but ", " / "


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a ``number``, or a cell, or the extreme of several cells.

    ``extreme`` is ``max`` for the cell with the largest number and ``min`` for the one with the least.
    """

    keys: tuple[Key, ...] = ()
    extreme: str = ""
    number: float = 0


@dataclass(frozen=True)
class Comparison:
    """``left relation right + shift``."""

    left: Side
    relation: str
    right: Side
    shift: float = 0


@dataclass(frozen=True)
class Claim:
    """A claim about one table, or one block of it: it says that all of its ``comparisons`` are true.

    ``words`` are the claim in our own, ``place`` is where the paper makes it, ``formulas`` are the comparisons as they
    are written.
    """

    name: str
    table: str
    block: str
    words: str
    place: str
    formulas: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def about(self) -> str:
        """The table without the name of its paper, and the block: ``table3 / phi=0.2``."""
        return " / ".join(filter(None, (short(self.table), self.block)))


def short(table: str) -> str:
    """A table's name without that of its paper."""
    return table.partition("/")[2]


def blocks(formulas: Sequence[str], keys: Sequence[Key]) -> list[str]:
    """The blocks of a table, about each of which the formulas make a claim; "" where they name blocks themselves."""
    if any(len(side.split(_BETWEEN)) > 2 for formula in formulas for side in re.split("[<>]", formula)):
        return [""]
    return list(dict.fromkeys(block for block, _, _ in keys))


def about(
    name: str, words: str, place: str, formulas: tuple[str, ...], table: str, keys: Sequence[Key], where: str
) -> Iterator[Claim]:
    """The claim about a table of these ``keys``, and about each block of it. Raises ConfigError as ``expand`` does."""
    for block in blocks(formulas, keys):
        part = [key for key in keys if block in ("", key[0])]
        comparisons = tuple(comparison for formula in formulas for comparison in expand(formula, part, where))
        yield Claim(name, table, block, words, place, formulas, comparisons)


def expand(formula: str, keys: Sequence[Key], where: str) -> Iterator[Comparison]:
    """The comparisons of single cells that a formula stands for; a cell that the table lacks makes none.

    Raises ConfigError for a formula that cannot be read, that names an unknown label, or that compares nothing.
    """
    match = _FORMULA.fullmatch(formula.strip())
    if match is None:
        raise ConfigError(f"{where}: a formula is such as 'boba / worst > others / worst + 2', got {formula!r}")
    shift = float(f"{match['sign'] or '+'}{match['shift'] or 0}")
    count = 0
    for left in _sides(match["left"], keys, where):
        for right in _sides(match["right"], keys, where, left):
            count += 1
            yield Comparison(left, match["relation"], right, shift)
    if not count:
        raise ConfigError(f"{where}: {formula!r} compares no two cells")


def named_keys(written: str, keys: Sequence[Key], where: str) -> list[Key]:
    """The cells that ``row / column`` or ``block / row / column`` stands for. Raises ConfigError if there are none."""
    named = [key for side in _sides(written, keys, where) for key in side.keys]
    if not named:
        raise ConfigError(f"{where}: {written!r} names no cell")
    return named


def _sides(written: str, keys: Sequence[Key], where: str, left: Side | None = None) -> Iterator[Side]:
    """The sides that one side of a formula stands for; ``others`` and ``same`` refer to the ``left`` one."""
    if _NUMBER.fullmatch(written):
        yield Side(number=float(written))
        return
    extreme, inner = match.groups() if (match := _EXTREME.fullmatch(written)) else ("", written)
    parts = [part.strip() for part in inner.split(_BETWEEN)]
    if len(parts) not in (2, 3):
        raise ConfigError(f"{where}: cells are written row / column or block / row / column, got {written!r}")
    if len(parts) == 2:
        parts.insert(0, _SAME if left and left.keys else _EVERY)
    axes = [list(dict.fromkeys(key[place] for key in keys)) for place in range(3)]
    chosen = [_labels(part, axis, [key[place] for key in left.keys] if left else [], where)
              for place, (part, axis) in enumerate(zip(parts, axes, strict=True))]  # fmt: skip
    inside = [key for key in keys if all(label in labels for label, labels in zip(key, chosen, strict=True))]
    if not extreme:
        yield from (Side((key,)) for key in inside)
        return
    for row in dict.fromkeys(row for _, row, _ in inside):
        yield Side(tuple(key for key in inside if key[1] == row), extreme)


def _labels(part: str, axis: Sequence[str], left: Sequence[str], where: str) -> list[str]:
    """The labels of an axis that one part stands for; ``left`` are those of the left side."""
    part, _, excluded = part.partition(_BUT)
    without = _named(excluded, axis, where) if excluded else []
    if part in (_OTHERS, _SAME):
        if not left:
            raise ConfigError(f"{where}: {part!r} stands on the right of cells")
        taken = [label for label in axis if (label in left) == (part == _SAME)]
    else:
        taken = _named(part, axis, where)
    return [label for label in taken if label not in without]


def _named(part: str, axis: Sequence[str], where: str) -> list[str]:
    """The labels that a list of patterns names, in the order of the axis."""
    named_labels: set[str] = set()
    for pattern in part.split("|"):
        named = matching(axis, pattern.strip())
        if not named:
            raise ConfigError(f"{where}: no {pattern.strip()!r}; there are {', '.join(filter(None, axis))}")
        named_labels.update(named)
    return [label for label in axis if label in named_labels]


EXPLAINED, OPEN, UNEXPLAINED = "explained by a check", "named, open", "unexplained"
STATES = {"explained": EXPLAINED, "open": OPEN}
"""What a YAML file says of a reason, and what a page does."""
KEYS = ("table", "cells", "state", "reason", "page")


@dataclass(frozen=True)
class Reason:
    """Why the cells of a table with these ``keys`` are outside.

    ``state`` is EXPLAINED if a check that is repeated shows the cause, or OPEN if an experiment was made that leaves
    the cause open. ``page`` is where the check or the experiment stands, as a link from the paper's folder in
    ``results/``.
    """

    name: str
    table: str
    keys: tuple[Key, ...]
    state: str
    words: str
    page: str


def read_reason(name: str, entry: Mapping[str, Any], table: str, keys: Sequence[Key], where: str) -> Reason:
    """The reason in an entry that has the KEYS, for a table with these cells. Raises ConfigError."""
    if entry["state"] not in STATES:
        raise ConfigError(f"{where}: state must be one of {', '.join(STATES)}, got {entry['state']!r}")
    written = entry["cells"] if isinstance(entry["cells"], list) else [entry["cells"]]
    chosen = tuple(key for cells in written for key in named_keys(str(cells), keys, where))
    return Reason(name, table, chosen, STATES[entry["state"]], entry["reason"], entry["page"])


def check_keys(entry: Any, known: Sequence[str], where: str, needed: Sequence[str] = ()) -> None:
    """Raise ConfigError unless an entry of a paper's file is a mapping with known keys, all ``needed`` ones among
    them."""
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where} must hold `key: value` lines, got {entry!r}")
    if unknown := [key for key in entry if key not in known]:
        raise ConfigError(f"{where} has no key {unknown[0]!r}; known: {', '.join(known)}")
    if absent := [key for key in needed if key not in entry]:
        raise ConfigError(f"{where} needs {absent[0]}")


def reasons_by_cell(reasons: Sequence[Reason], table: str) -> dict[Key, Reason]:
    """The reason of each cell of a table that has one."""
    return {key: reason for reason in reasons if reason.table == table for key in reason.keys}
