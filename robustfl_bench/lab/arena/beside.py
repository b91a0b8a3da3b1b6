"""Tracks beside each other: how the scores and the order of the same rules change from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from robustfl_bench.lab.arena.conclusions import correlation
from robustfl_bench.lab.arena.page import SCORE_MEANING
from robustfl_bench.lab.arena.pairs import contenders
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.words import bounds, cells, listed, number
from robustfl_bench.read.runs.statistics import chance_if_equal, rejected
from robustfl_bench.read.tables.sheets import Printed, Sheet


def sheets(base: Arena, others: Sequence[Arena]) -> Iterator[Sheet]:
    """For each panel of a track that others have by the same name: the scores of the rules in all of them."""
    for place, panel in base.by_list.items():
        held = {arena.track.name: arena.by_list[place] for arena in others if place in arena.by_list}
        if held:
            yield _sheet(base, panel, held)


def _sheet(base: Arena, panel: ArenaPanel, held: Mapping[str, ArenaPanel]) -> Sheet:
    name, shown = base.track.name, {base.track.name: panel, **held}
    known = [set(contenders(of)) for of in held.values()]
    rules = [rule for rule in contenders(panel) if any(rule in others for others in known)]
    rows = [*rules, *[SERVER] * any(of.server is not None for of in shown.values())]
    best = {track: of.best(rule for rule in rules if rule in of.standings) for track, of in shown.items()}
    return Sheet(
        above=[
            f"Arena {listed(shown)}: {base.titled(panel)}",
            *(f"{track} against {name}: {_change(panel, of)}" for track, of in held.items()),
        ],
        heading=["rule", *shown],
        rows=[[Printed(rule), *(Printed(_score(of, rule), best=rule in best[track]) for track, of in shown.items())]
              for rule in rows],
        bold="cannot be told from the best rule of its column",
        footnotes=[
            *SCORE_MEANING[:1],
            "beyond the seeds: by Welch's test with the bootstrap's errors at 5%, corrected for the number of rules "
            "(Benjamini and Hochberg). order: the rank correlation of the worst cases",
        ],
    )  # fmt: skip


def _score(panel: ArenaPanel, rule: str) -> str:
    if rule not in panel.standings or not panel.is_whole(rule):
        return ""
    standing = panel.standings[rule]
    return number(standing.score.value) + bounds(panel.interval(standing))


def _change(first: ArenaPanel, second: ArenaPanel) -> str:
    """Which rules score higher or lower in the second panel beyond the seeds, and how alike the orders are."""
    before, after = (panel.scores(contenders(panel)) for panel in (first, second))
    shared = [rule for rule in before if rule in after]
    chances = {rule: chance_if_equal(before[rule], after[rule]) for rule in shared}
    moved = rejected(chances, max(first.level, second.level))
    up = [rule for rule in shared if rule in moved and after[rule].value > before[rule].value]
    down = [rule for rule in shared if rule in moved and rule not in up]
    order = correlation(first, second)
    return f"of {len(shared)} rules, beyond the seeds higher {listed(up)}; lower {listed(down)}" + (
        f"; order {order:.2f}" if order is not None else ""
    )


def orders(base: Arena, others: Sequence[Arena]) -> Sheet:
    """How alike the orders of the rules are in the panels of other tracks and in those of a track."""
    panels = list(base.by_list.values())
    rows = []
    for arena in others:
        for panel in arena.by_list.values():
            found = [correlation(panel, of) for of in panels]
            rows.append(cells([arena.track.name, arena.titled(panel), str(len(contenders(panel))),
                               *("" if each is None else f"{each:.2f}" for each in found)]))  # fmt: skip
    return Sheet(
        above=[f"The order of the rules in other tracks and in the panels of {base.track.name}"],
        heading=["track", "panel", "rules", *(f"{of.partition} {base.share(of.number)}" for of in panels)],
        rows=rows,
        labels=2,
        footnotes=["rank correlation of the worst cases of the rules that both panels have; 1: the same order"],
    )
