"""How often tests and intervals err in a panel, as scripts/generators/error_rates.py simulated on its kept runs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.pairs import TOP
from robustfl_bench.lab.arena.words import cells, span
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
    where = "" if lines[0]["track"] == arena.track.name else f" with seeds of {lines[0]['track']}"
    pair, family, out, held = (_share(lines, name) for name in ("pair", "any_pair", "left_out", "covered"))
    return (
        f"simulated{where}, all rules made equal, {seeds} seeds each: a pair is told apart at 5% in {pair}, any pair "
        f"of the best {TOP} in {family}; a rule is left out of the first group in {out}; intervals hold the true score "
        f"in {held}"
    )


def sheet(arena: Arena) -> Sheet:
    """The error rates of all simulated panels of a track."""
    rows = [cells([line["partition"], arena.share(int(line["attackers"])), line["rules"], line["seeds"],
                   *(_share([line], name) for name in HEADING[6:])])
            for line in simulated() if line["test"] == USED and line["track"] == arena.track.name]  # fmt: skip
    return Sheet(
        above=[f"Arena {arena.track.name}: how often tests and intervals err, simulated"],
        heading=["partition", "attackers", "rules", "seeds", "pair", "worst pair", "any pair", "left out", "held",
                 "worst held", "told apart"],
        rows=rows,
        labels=2,
        footnotes=[
            "the seeds of a panel's rules are drawn again with replacement, the same for all rules, each rule moved to "
            f"the same true score. pair: the pairs of the best {TOP} that a test at 5% tells apart, on average and the "
            "worst; any pair: whether it tells one apart as the page does, corrected for their number and for three "
            "looks; left out: how often a rule is not in the first group",
            "held: the 95% intervals that hold the true score, on average and of the worst rule: one that fails in a "
            "few seeds alone shows nothing of it in the others. told apart: the pairs, if no rule is moved",
        ],
    )  # fmt: skip


def _share(lines: Sequence[Mapping[str, str]], name: str) -> str:
    """A share in percent, or from which to which."""
    found = sorted(100 * float(line[name]) for line in lines)
    return f"{span(f'{found[0]:.1f}', f'{found[-1]:.1f}')}%"
