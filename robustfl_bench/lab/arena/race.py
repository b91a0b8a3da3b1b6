"""The race: which rules of a panel get more seeds, by a rule that is fixed before the runs.

All rules have the seeds of the first look. At each look the best TOP rules of a panel are compared with each other
(``pairs``), at a level that keeps 5% over all looks together. A panel is settled, and stops, when SETTLED of these
pairs are told apart or equal, or at the last look. Otherwise the rules near the best TOP, and of which a pair is open,
get the seeds of their next look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robustfl_bench.lab.arena.additions import SEARCHING
from robustfl_bench.lab.arena.pairs import TOP, Pairs, contenders, pairs
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.read.runs.statistics import LEVEL, chance_if_equal

SETTLED = 0.6
"""The share of the pairs of the best rules that settles a panel."""


@dataclass(frozen=True)
class SeedLook:
    """What a panel's results say at a look: the ``pairs`` of its best rules, the rules that get ``more`` seeds and how
    many each then has, and ``why`` the panel stops; empty if it goes on."""

    panel: ArenaPanel
    pairs: Pairs
    more: dict[str, int]
    why: str


def near(panel: ArenaPanel) -> list[str]:
    """The best TOP rules of a panel and those that a test at 5%, each alone, cannot tell from the last of them: to stop
    a rule is no claim about it, so nothing is corrected."""
    rules = contenders(panel)
    scores = panel.scores(rules)
    return [rule for place, rule in enumerate(rules)
            if place < TOP or chance_if_equal(scores[rules[TOP - 1]], scores[rule]) > 1 - LEVEL]  # fmt: skip


def look(panel: ArenaPanel, looks: Sequence[int]) -> SeedLook:
    """The look at a panel whose track has these ``looks``, the numbers of seeds."""
    found = pairs(panel)
    close = near(panel)
    undecided = {rule for pair in pairs(panel, close).open for rule in pair if {*pair} & {*found.rules}}
    more = {rule: following for rule in close if rule in undecided and panel.standings[rule].attack not in SEARCHING
            if (following := _next(panel.standings[rule].score.n, looks))}  # fmt: skip
    if not found.all:
        return SeedLook(panel, found, {}, "fewer than two rules have all attacks")
    if found.share_settled >= SETTLED:
        return SeedLook(
            panel, found, {}, f"settled: {100 * found.share_settled:.0f}% of the pairs are told apart or equal"
        )
    return SeedLook(panel, found, more, "" if more else f"not settled at the last look, {max(looks)} seeds")


def _next(seeds: int, looks: Sequence[int]) -> int:
    """The next look after this number of seeds; 0 after the last."""
    return next((of for of in looks if of > seeds), 0)


def commands(arena: Arena, of: SeedLook) -> list[str]:
    """The commands that make the runs which a panel asks for: one for each set of seeds, and the honest clients' mean
    for all of them."""
    track, panel = arena.track, of.panel
    place = f"num_byzantine={panel.number} partition={panel.partition}"
    by_seeds: dict[str, list[str]] = {}
    for rule, following in of.more.items():
        new = ",".join(map(str, range(panel.standings[rule].score.n, following)))
        name, options = arena.needs.asked_as(rule)
        by_seeds.setdefault(" ".join([f"seed={new}", *options]), []).append(name)
    lines = [f"robustfl-bench -m +experiment={track.experiment} {place} {words} aggregator={','.join(names)}"
             for words, names in by_seeds.items()]  # fmt: skip
    last = max(of.more.values(), default=0)
    if last > track.looks[0]:
        new = ",".join(map(str, range(track.looks[0], last)))
        lines.append(f"robustfl-bench -m +experiment={track.experiment}_honest {place} seed={new}")
    return lines
