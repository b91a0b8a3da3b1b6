"""Robustness against what rules cost and need, and kappa, searched without training, against the worst case."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.panels import SERVER_DATA, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.views.base import ArenaView, mean_scores, rows_of_panels
from robustfl_bench.lab.arena.words import cells, listed, number, span
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.runner.store.kept import FOLDER, sealed_content

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


def _kind_of_rule(arena: Arena, rule: str) -> str:
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


def _sheets_of_pareto(arena: Arena) -> list[Sheet]:
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


def _picture_of_pareto(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for of, row in rows_of_panels(arena):
        scores = {rule: score for rule, score in mean_scores(row).items() if rule != SERVER}
        best = front(arena, scores)
        points = [NamedPoint(rule, work(arena, rule), score, _kind_of_rule(arena, rule), rule in best)
                  for rule, score in scores.items()]  # fmt: skip
        shown.append(ScatterPanel(f"{arena.share(of)} attackers", points))
    x, y = "Operations per number", "Mean score over partitions"
    heading = f"Arena {arena.track.name}: robustness against cost and needs; with its name: the front"
    return draw_scatter(shown, x, y, heading, log=True, frame=frame.at("column"))


PARETO = ArenaView("pareto", "robustness against cost and needs", _sheets_of_pareto, _picture_of_pareto)


_LARGEST = 1e3  # kappa in the picture: larger ones stand at its edge
_NAMED = 4  # named rules at each end of a panel of the picture


def searched(track: str, partition: str) -> dict[str, tuple[int, float]]:
    """The number of attackers and kappa of each rule, by ``robustfl-bench resilience`` on a first round of a track,
    kept in ``results/resilience/arena_TRACK_PARTITION.csv``; empty without such a file. An infinite kappa is one."""
    path = FOLDER / "resilience" / f"arena_{track}_{partition}.csv"
    if not path.exists():
        return {}
    lines = csv.DictReader(sealed_content(path).decode().splitlines())
    rows = [row for row in lines if row["pre_aggregation"] == "none" and row["kappa"]]
    return {row["aggregator"]: (int(row["f"]), float(row["kappa"])) for row in rows}


def kappas(panel: ArenaPanel, track: str) -> dict[str, float]:
    """The kappa of the rules of a panel that were run under all attacks; server alone is no such rule."""
    known = {rule: kappa for rule, (f, kappa) in searched(track, panel.partition).items() if f == panel.number}
    return {rule: known[rule] for rule in panel.standings if rule in known and panel.is_whole(rule) and rule != SERVER}


def correlation(panel: ArenaPanel, known: Mapping[str, float]) -> float:
    """Spearman's rank correlation of kappa with the worst case; nan for fewer than three rules."""
    if len(known) < 3:
        return math.nan
    return rank_correlation(list(known.values()), [panel.standings[rule].worst for rule in known])


def _panels(arena: Arena) -> dict[ArenaPanel, dict[str, float]]:
    found = [(panel, kappas(panel, arena.track.name)) for panel in arena.panels.values()]
    if not (kept := [(panel, known) for panel, known in found if len(known) >= 3]):
        raise NoRuns(
            f"no kappas of arena {arena.track.name}; robustfl-bench resilience makes them, see results/resilience"
        )
    return dict(kept)


def answer_of_kappa(arena: Arena) -> str:
    """The correlations, of all rules and of those that read the updates alone."""
    known = _panels(arena)
    parts = []
    for words, alone in (("over all rules", False), (f"over those without {SERVER_DATA}", True)):
        found = sorted((correlation(panel, _chosen(arena, of, alone)), panel.partition) for panel, of in known.items())
        ends = span(*(f"{value:.2f} ({partition})" for value, partition in (found[0], found[-1])))
        parts.append(f"{ends} {words}")
    return f"Spearman's rank correlation of kappa with the worst case is {', and '.join(parts)}"


def _chosen(arena: Arena, known: Mapping[str, float], alone: bool) -> Mapping[str, float]:
    """All rules, or those alone that read no data of the server."""
    return {rule: kappa for rule, kappa in known.items() if not (alone and SERVER_DATA in arena.needs.of(rule))}


def _sheets_of_kappa(arena: Arena) -> list[Sheet]:
    kept = _panels(arena)
    rules = sorted({rule for known in kept.values() for rule in known},
                   key=lambda rule: (min(known.get(rule, math.inf) for known in kept.values()), rule))  # fmt: skip
    rows = []
    for rule in rules:
        row = [rule]
        for panel, known in kept.items():
            row += [f"{known[rule]:.3g}", number(panel.standings[rule].worst)] if rule in known else ["", ""]
        rows.append(cells(row))
    for words, alone in (("rank correlation", False), (f"without {SERVER_DATA}", True)):
        chosen = {panel: _chosen(arena, known, alone) for panel, known in kept.items()}
        counts = ((f"{correlation(panel, of):.2f}", f"{len(of)} rules") for panel, of in chosen.items())
        rows.append(cells([words, *(word for pair in counts for word in pair)]))
    heading = [word for panel in kept for word in (f"kappa, {arena.titled(panel)}", "worst case")]
    return [Sheet(
        above=[f"Arena {arena.track.name}: kappa, searched in milliseconds, against the worst case of trainings",
               f"{answer_of_kappa(arena)}."],
        heading=["rule", *heading],
        rows=rows,
        footnotes=[
            "kappa: the worst |F - mean|^2 / spread^2 found with as many attackers on the updates of one first round "
            "(robustfl-bench resilience, see results/resilience); less is better, so a correlation of -1 would order "
            "the rules as the trainings do. worst case: test accuracy [%]"
        ],
    )]  # fmt: skip


def _picture_of_kappa(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for panel, known in _panels(arena).items():
        by_kappa = sorted(known, key=lambda rule: (known[rule], -panel.standings[rule].worst))
        named = {*by_kappa[:_NAMED], *sorted(known, key=lambda rule: -panel.standings[rule].worst)[:_NAMED]}
        points = [
            NamedPoint(
                rule,
                min(max(known[rule], 1 / _LARGEST), _LARGEST),
                panel.standings[rule].worst,
                f"reads {SERVER_DATA}" if SERVER_DATA in arena.needs.of(rule) else "reads updates alone",
                rule in named,
            )
            for rule in by_kappa
        ]
        shown.append(
            ScatterPanel(f"{panel.partition}, {arena.share(panel.number)}: {correlation(panel, known):.2f}", points)
        )
    heading = f"Arena {arena.track.name}: kappa against the worst case, with Spearman's rank correlation"
    x, y = f"kappa (at the edge: {_LARGEST:g} or more)", "Worst case [%]"
    return draw_scatter(shown, x, y, heading, log=True, frame=frame.at("column"), height=1.8)


KAPPA = ArenaView(
    "kappa", "kappa, searched without training, against the worst case", _sheets_of_kappa, _picture_of_kappa
)
