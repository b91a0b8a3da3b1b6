"""Robustness against what rules cost and need, and kappa, searched without training, against the worst case."""

from __future__ import annotations

import math
from collections.abc import Mapping

from robustfl_bench.lab.arena.order import mean_scores, rows_of_panels
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.rows import sealed_rows
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.words import SERVER_DATA, said, span, tabled
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.store.kept import FOLDER


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
    return [rule for rule in known if not any(scores[other] > scores[rule] and spares(other, rule) for other in known)]


def _kind_of_rule(arena: Arena, rule: str) -> str:
    """The need of a rule that decides where it can be used."""
    needs = arena.needs.of(rule)
    return next((f"needs {need}" for need in (SERVER_DATA, "f") if need in needs), "needs neither")


def sheets_of_pareto(arena: Arena) -> list[Sheet]:
    pages = []
    for number, row in rows_of_panels(arena):
        scores = mean_scores(row)
        records = [
            {"rule": rule, "mean": score, "least": min(panel.standings[rule].score.value for panel in row),
             "operations": work(arena, rule)}
            for rule, score in scores.items()
        ]  # fmt: skip
        best = front(arena, scores)
        pages.append(tabled("views.pareto", records, arena=arena, number=number, front=best, scores=scores))
    return pages


def picture_of_pareto(arena: Arena, frame: Frame) -> Figure:
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


_LARGEST = 1e3  # kappa in the picture: larger ones stand at its edge
_NAMED = 4  # named rules at each end of a panel of the picture


def searched(track: str, partition: str) -> dict[str, tuple[int, float]]:
    """The number of attackers and kappa of each rule, by ``robustfl-bench resilience`` on a first round of a track,
    kept in ``results/resilience/arena_TRACK_PARTITION.csv``; empty without such a file. An infinite kappa is one."""
    rows = sealed_rows(FOLDER / "resilience" / f"arena_{track}_{partition}.csv")
    return {
        row["aggregator"]: (int(row["f"]), float(row["kappa"]))
        for row in rows
        if row["pre_aggregation"] == "none" and row["kappa"]
    }


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
        raise NoRuns(said("views.no_kappas", arena=arena))
    return dict(kept)


def answer_of_kappa(arena: Arena) -> str:
    """The correlations, of all rules and of those that read the updates alone."""
    known = _panels(arena)
    every, blind = (
        sorted((correlation(panel, _chosen(arena, of, alone)), panel.partition) for panel, of in known.items())
        for alone in (False, True)
    )
    words = [span(*(f"{value:.2f} ({name})" for value, name in (of[0], of[-1]))) for of in (every, blind)]
    return said("views.kappa_says", every=words[0], blind=words[1])


def _chosen(arena: Arena, known: Mapping[str, float], alone: bool) -> Mapping[str, float]:
    """All rules, or those alone that read no data of the server."""
    return {rule: kappa for rule, kappa in known.items() if not (alone and SERVER_DATA in arena.needs.of(rule))}


def sheets_of_kappa(arena: Arena) -> list[Sheet]:
    kept = _panels(arena)
    rules = sorted({rule for known in kept.values() for rule in known},
                   key=lambda rule: (min(known.get(rule, math.inf) for known in kept.values()), rule))  # fmt: skip
    records = [{"rule": rule, "numbers": [part for panel, known in kept.items() for part in (
                (f"{known[rule]:.3g}", panel.standings[rule].worst) if rule in known else ("", ""))]}
               for rule in rules]  # fmt: skip
    for words, alone in (("rank correlation", False), (f"without {SERVER_DATA}", True)):
        chosen = [(panel, _chosen(arena, known, alone)) for panel, known in kept.items()]
        records.append({"rule": words, "numbers": [part for panel, of in chosen for part in (
                        f"{correlation(panel, of):.2f}", f"{len(of)} rules")]})  # fmt: skip
    heading = [word for panel in kept for word in (f"kappa, {arena.titled(panel)}", "worst case")]
    return [tabled("views.kappa", records, arena=arena, heading=heading, answer=answer_of_kappa(arena))]


def picture_of_kappa(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for panel, known in _panels(arena).items():
        by_kappa = sorted(known, key=lambda rule: (known[rule], -panel.standings[rule].worst))
        named = {*by_kappa[:_NAMED], *sorted(known, key=lambda rule: -panel.standings[rule].worst)[:_NAMED]}
        points = []
        for rule in by_kappa:
            kind = f"reads {SERVER_DATA}" if SERVER_DATA in arena.needs.of(rule) else "reads updates alone"
            kappa = min(max(known[rule], 1 / _LARGEST), _LARGEST)
            points.append(NamedPoint(rule, kappa, panel.standings[rule].worst, kind, rule in named))
        title = f"{panel.partition}, {arena.share(panel.number)}: {correlation(panel, known):.2f}"
        shown.append(ScatterPanel(title, points))
    heading = f"Arena {arena.track.name}: kappa against the worst case, with Spearman's rank correlation"
    x, y = f"kappa (at the edge: {_LARGEST:g} or more)", "Worst case [%]"
    return draw_scatter(shown, x, y, heading, log=True, frame=frame.at("column"), height=1.8)
