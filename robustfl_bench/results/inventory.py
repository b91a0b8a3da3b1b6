"""What can be reproduced: the tables and figures of the papers, and how many of the runs of each are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robustfl_bench.config import options, presets
from robustfl_bench.papers.tables import Figure, PaperTable, figures, tables
from robustfl_bench.results import commands, matching
from robustfl_bench.results.archive import KEPT
from robustfl_bench.results.matching import Config, Index
from robustfl_bench.results.paper import compare
from robustfl_bench.results.records import text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Entry:
    """A table or a figure: ``done`` of its ``runs`` are there, finished or known to be infeasible.

    Of a table, ``inside`` of the ``compared`` cells of all ``cells`` agree with the published number. ``commands`` make
    the runs, and then the table or the figure.
    """

    name: str
    title: str
    runs: int
    done: int
    commands: tuple[str, ...]
    cells: int | None = None
    compared: int = 0
    inside: int = 0


def inventory(runs: pd.DataFrame, begins: str = "") -> Iterator[Entry]:
    """Every table and figure whose name begins with ``begins``, with what of it is in ``runs`` (``records.load``)."""
    index = Index(runs)
    ended = [state in KEPT for state in runs["state"]]
    seeds = list(runs["seed"].map(text))
    known: dict[str, PaperTable | Figure] = {**tables(), **figures()}
    for name, entry in known.items():
        if not name.startswith(begins):
            continue
        wanted = sweep(entry.preset)
        done = sum(len({seeds[place] for place in index.at(dict(config)) if ended[place]} & asked)
                   for config, asked in wanted.items())  # fmt: skip
        total = sum(map(len, wanted.values()))
        if isinstance(entry, Figure):
            both = (commands.preset(entry.preset), *filter(None, [entry.draw]))
            yield Entry(name, entry.title, total, done, both)
        else:
            yield _table(entry, runs, index, total, done)


def _table(table: PaperTable, runs: pd.DataFrame, index: Index, total: int, done: int) -> Entry:
    both = (commands.preset(table.preset), f"robustfl-results table {table.name}")
    cells = len(table.cells)
    if not done:
        return Entry(table.name, table.title, total, done, both, cells)
    judged = compare(table, runs, index=index).judged.values()
    inside = sum(bool(cell.inside) for cell in judged)
    return Entry(table.name, table.title, total, done, both, cells, len(judged), inside)


def sweep(preset: str, *overrides: str) -> dict[frozenset[tuple[str, str]], set[str]]:
    """The runs of a preset: the settings of each, and its seeds."""
    found: dict[frozenset[tuple[str, str]], set[str]] = {}
    known: dict[tuple[str, ...], frozenset[tuple[str, str]]] = {}
    default = text(options.defaults()[1]["seed"])
    for run in presets.sweep([f"+experiment={preset}", *overrides]):
        others = tuple(word for word in run if not word.startswith("seed="))
        if others not in known:
            known[others] = _settings(others)
        seed = next((word.removeprefix("seed=") for word in run if word.startswith("seed=")), default)
        found.setdefault(known[others], set()).add(seed)
    return found


def _settings(overrides: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    config: Config = matching.config(presets.resolve(overrides).identity)
    return frozenset(config.items())
