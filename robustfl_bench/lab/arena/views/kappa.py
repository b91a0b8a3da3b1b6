"""Does kappa, searched without training, order the rules as their worst cases do?"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.panels import SERVER_DATA, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.views.base import ArenaView
from robustfl_bench.lab.arena.words import cells, number, span
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.store.kept import FOLDER, sealed_content

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST = 1e3  # kappa in the picture: larger ones stand at its edge
_SHOWN = 4  # named rules at each end of a panel of the picture


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


def answer(arena: Arena) -> str:
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


def _sheets(arena: Arena) -> list[Sheet]:
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
               f"{answer(arena)}."],
        heading=["rule", *heading],
        rows=rows,
        footnotes=[
            "kappa: the worst |F - mean|^2 / spread^2 found with as many attackers on the updates of one first round "
            "(robustfl-bench resilience, see results/resilience); less is better, so a correlation of -1 would order "
            "the rules as the trainings do. worst case: test accuracy [%]"
        ],
    )]  # fmt: skip


def _picture(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for panel, known in _panels(arena).items():
        by_kappa = sorted(known, key=lambda rule: (known[rule], -panel.standings[rule].worst))
        named = {*by_kappa[:_SHOWN], *sorted(known, key=lambda rule: -panel.standings[rule].worst)[:_SHOWN]}
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


VIEW = ArenaView("kappa", "kappa, searched without training, against the worst case", _sheets, _picture)
