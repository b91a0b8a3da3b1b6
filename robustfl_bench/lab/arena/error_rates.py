"""How often tests and intervals err in a panel, as scripts/generators/error_rates.py simulated on its kept runs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.pairs import TOP
from robustfl_bench.lab.arena.words import ends, said, tabled
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.store.kept import ARENA, FOLDER, sealed_content

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import Arena, ArenaPanel

FILE = FOLDER / ARENA / "error_rates.csv"
HEADING = ("track", "partition", "attackers", "rules", "seeds", "test", "pair", "worst_pair", "any_pair", "left_out",
           "covered", "worst_covered", "power")  # fmt: skip
"""The columns of FILE: a panel, its simulated rules and seeds, a test, and shares."""

USED = "used"
"""The test that pages show; the others are beside it to compare."""


@cache
def simulated() -> Sequence[Mapping[str, str]]:
    """The lines of FILE, by panel and number of seeds; none if it is not there."""
    if not FILE.is_file():
        return []
    return list(csv.DictReader(sealed_content(FILE).decode().splitlines()))


def words(arena: Arena, panel: ArenaPanel) -> str:
    """The error rates of a panel, with as many of its seeds as were simulated, or those of all simulated panels; empty
    for one seed."""
    known = [line for line in simulated() if line["test"] == USED and int(line["seeds"]) <= panel.seeds]
    place = (panel.partition, str(panel.number))
    lines = [line for line in known if (line["partition"], line["attackers"]) == place] or known
    if not lines:
        return ""
    seeds = max((line["seeds"] for line in lines), key=int)
    lines = [line for line in lines if line["seeds"] == seeds]
    return said("tables.error_rates_say", arena=arena, track=lines[0]["track"], seeds=seeds, TOP=TOP, **_shares(lines))


def sheet(arena: Arena) -> Sheet:
    """The error rates of all simulated panels of a track."""
    records = [{**line, **_shares([line]), "share": arena.share(int(line["attackers"]))}
               for line in simulated() if line["test"] == USED and line["track"] == arena.track.name]  # fmt: skip
    return tabled("tables.error_rates", records, arena=arena, TOP=TOP)


def _shares(lines: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The shares in percent, or from which to which."""
    return {name: f"{ends((100 * float(line[name]) for line in lines), '.1f')}%" for name in HEADING[6:]}
