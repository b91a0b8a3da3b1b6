"""At which share of attackers a rule collapses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.panels import HALF, Arena
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.views.base import ArenaView, mean_scores, rows_of_panels
from robustfl_bench.lab.arena.words import cells
from robustfl_bench.read.pages.pictures import curves
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.tables.sheets import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 6  # rules in the picture


def levels(arena: Arena) -> dict[tuple[str, str], dict[float, float]]:
    """The score of each rule and partition by share of attackers in percent; at 0 that of the runs without attack."""
    held: dict[tuple[str, str], dict[float, float]] = {}
    for (of, partition), panel in arena.panels.items():
        for rule, standing in panel.standings.items():
            if panel.is_whole(rule) and rule != SERVER:
                by_share = held.setdefault((rule, partition), {})
                by_share.setdefault(0.0, panel.scaled(standing.clean))
                by_share[100 * of / arena.track.clients] = standing.score.value
    return held


def collapse(by_share: dict[float, float]) -> tuple[float, float]:
    """The shares of attackers between which the score falls below HALF for the first time: the last at which the rule
    holds, and the first at which it does not. The first is -1 for a rule that never holds, the second infinite for one
    that always does."""
    holds = -1.0
    for share in sorted(by_share):
        if not by_share[share] >= HALF:
            return holds, share
        holds = share
    return holds, float("inf")


def bracket(by_share: dict[float, float]) -> str:
    """``collapse`` in words."""
    holds, falls = collapse(by_share)
    if holds < 0:
        return "without attack"
    if falls == float("inf"):
        return f"> {holds:.0f}%"
    return f"< {falls:.0f}%" if holds == 0 else f"{holds:.0f} to {falls:.0f}%"


def answer(arena: Arena) -> str:
    """In each partition, how many rules hold up to which share."""
    held = levels(arena)
    shares = sorted({share for by_share in held.values() for share in by_share} - {0.0})
    parts = []
    for partition in arena.track.swept["partition"]:
        of = [collapse(by_share)[0] for (_, name), by_share in held.items() if name == partition]
        counts = ", ".join(f"{sum(holds >= share for holds in of)} at {share:.0f}%" for share in shares)
        parts.append(f"{partition} {counts}")
    rules = len({rule for rule, _ in held})
    return f"of {rules} rules, so many keep half of what the honest clients reach: {'; '.join(parts)}"


def _sheets(arena: Arena) -> list[Sheet]:
    rows = [row for _, row in rows_of_panels(arena)]
    held = levels(arena)
    partitions = list(arena.track.swept["partition"])
    total = {rule: sum(mean_scores(row).get(rule, 0.0) for row in rows) for rule, _ in held}
    rules = sorted(total, key=lambda rule: (-total[rule], rule))
    return [Sheet(
        above=[f"Arena {arena.track.name}: the collapse point f*, the share of attackers at which a rule fails",
               f"{answer(arena)}."],
        heading=["rule", *partitions],
        rows=[cells([rule, *(bracket(held[rule, name]) if (rule, name) in held else "" for name in partitions)])
              for rule in rules],
        footnotes=[
            f"f*: between the last share of attackers at which the score is {HALF:g} or more and the first at which it "
            "is less; only the shares that were run bound it, so no value between them is known. Rules by mean score"
        ],
    )]  # fmt: skip


def _picture(arena: Arena, frame: Frame) -> Figure:
    import pandas as pd

    held = levels(arena)
    rows = [row for _, row in rows_of_panels(arena)]
    total = {rule: sum(mean_scores(row).get(rule, 0.0) for row in rows) for rule, _ in held}
    best = sorted(total, key=lambda rule: -total[rule])[:_SHOWN]
    points = [("", partition, rule, share, score) for partition in arena.track.swept["partition"] for rule in best
              for share, score in sorted(held.get((rule, partition), {}).items())]  # fmt: skip
    table = pd.DataFrame(points, columns=["value", "panel", "line", "x", "mean"])
    table = table.assign(low=table["mean"], high=table["mean"])
    heading = f"Arena {arena.track.name}: the {len(best)} best rules against the share of attackers"
    drawn = curves.Curves(table, "Attackers [% of clients]", {"": "Score"}, heading, methods=True)
    return curves.draw(drawn, frame.at("column"))


VIEW = ArenaView("collapse", "at which share of attackers a rule collapses", _sheets, _picture)
