"""Why measured numbers lie outside the published ones: what a paper's YAML says of single cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.tables.claims import Key, named_keys

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


def read(name: str, entry: Mapping[str, Any], table: str, keys: Sequence[Key], where: str) -> Reason:
    """The reason in an entry that has the KEYS, for a table with these cells. Raises ConfigError."""
    if entry["state"] not in STATES:
        raise ConfigError(f"{where}: state must be one of {', '.join(STATES)}, got {entry['state']!r}")
    written = entry["cells"] if isinstance(entry["cells"], list) else [entry["cells"]]
    chosen = tuple(key for cells in written for key in named_keys(str(cells), keys, where))
    return Reason(name, table, chosen, STATES[entry["state"]], entry["reason"], entry["page"])


def by_cell(reasons: Sequence[Reason], table: str) -> dict[Key, Reason]:
    """The reason of each cell of a table that has one."""
    return {key: reason for reason in reasons if reason.table == table for key in reason.keys}


def wrong(reasons: Sequence[Reason], outside: Mapping[str, Sequence[Key]]) -> Iterator[str]:
    """What is wrong with reasons, one line each: a cell that is not outside (any more), or that has two of them.

    ``outside`` are the cells of each table that lie outside.
    """
    seen: dict[tuple[str, Key], str] = {}
    for reason in reasons:
        for key in reason.keys:
            cell = f"{reason.table}: {' / '.join(filter(None, key))}"
            if key not in outside.get(reason.table, ()):
                yield f"{reason.name}: {cell} is not outside"
            if other := seen.get((reason.table, key)):
                yield f"{reason.name}: {cell} has the reason {other} as well"
            seen[reason.table, key] = reason.name
