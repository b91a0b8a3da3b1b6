"""What robustness costs: time per round, and what a rule needs to know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.panels import SERVER_DATA, Arena
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.views.base import ArenaView, mean_scores, rows_of_panels
from robustfl_bench.lab.arena.words import cells, listed, number
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.tables.sheets import Printed, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTHING = "nothing"


def work(arena: Arena, rule: str) -> float:
    """The operations of a round per number in the updates of n clients, to leading order: one pass, n for a Gram matrix
    and log n for a sort."""
    n, counts = arena.track.clients, arena.needs.operations(rule)
    return 1 + n * counts.get("Gram", 0.0) + math.log2(n) * counts.get("sort", 0.0)


def front(arena: Arena, scores: Mapping[str, float]) -> list[str]:
    """The rules with a positive score for which no better rule needs no more and costs no more, the best first."""

    def spares(other: str, rule: str) -> bool:
        own, others = arena.needs.operations(rule), arena.needs.operations(other)
        cheaper = all(others[kind] <= own.get(kind, 0.0) for kind in others)
        return cheaper and {*arena.needs.of(other)} <= {*arena.needs.of(rule)}

    known = [rule for rule in scores if rule != SERVER and scores[rule] > 0]
    return [rule for rule in known
            if not any(scores[other] > scores[rule] and spares(other, rule) for other in known)]  # fmt: skip


def _kind(arena: Arena, rule: str) -> str:
    """The need of a rule that decides where it can be used."""
    needs = arena.needs.of(rule)
    return next((f"needs {need}" for need in (SERVER_DATA, "f") if need in needs), "needs neither")


def answer(arena: Arena, of: int) -> str:
    """The front in words."""
    scores = mean_scores(arena.row(of))
    parts = [
        f"{rule} ({scores[rule]:.0f}; needs {', '.join(arena.needs.of(rule)) or _NOTHING}, {arena.needs.cost(rule)})"
        for rule in front(arena, scores)
    ]
    return (
        f"with {arena.share(of)} attackers, any other rule has a lower mean score than one of these that needs no more "
        f"and costs no more: {listed(parts)}"
    )


def _sheets(arena: Arena) -> list[Sheet]:
    pages = []
    for of, row in rows_of_panels(arena):
        scores = mean_scores(row)
        line = front(arena, scores)
        rows = [[
            Printed(rule, best=rule in line), *cells([
                number(score), number(min(panel.standings[rule].score.value for panel in row)),
                ", ".join(arena.needs.of(rule)) or _NOTHING, arena.needs.cost(rule), number(work(arena, rule), 0),
            ]),
        ] for rule, score in scores.items()]  # fmt: skip
        pages.append(Sheet(
            above=[f"{arena.track.title(of)}: robustness against cost and needs", f"{answer(arena, of)}."],
            heading=["rule", "mean score", "least score", "needs", "cost", "operations"],
            rows=rows,
            bold="the front: no better rule needs no more and costs no more",
            footnotes=[
                "score: mean and least over partitions. cost: Gram matrices and sorts of a round, counted. operations: "
                "the same per number in the updates, to leading order. Times of these runs are no measure of a rule's "
                "own cost: they include training, and the runs were not timed side by side"
            ],
        ))  # fmt: skip
    return pages


def _picture(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for of, row in rows_of_panels(arena):
        scores = {rule: score for rule, score in mean_scores(row).items() if rule != SERVER}
        best = front(arena, scores)
        points = [NamedPoint(rule, work(arena, rule), score, _kind(arena, rule), rule in best)
                  for rule, score in scores.items()]  # fmt: skip
        shown.append(ScatterPanel(f"{arena.share(of)} attackers", points))
    x, y = "Operations per number", "Mean score over partitions"
    heading = f"Arena {arena.track.name}: robustness against cost and needs; with its name: the front"
    return draw_scatter(shown, x, y, heading, log=True, frame=frame.at("column"))


VIEW = ArenaView("pareto", "robustness against cost and needs", _sheets, _picture)
