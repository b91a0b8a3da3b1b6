"""How well rules that accept or drop clients tell attackers from honest clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.order import is_attacked
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import ArenaRun
from robustfl_bench.lab.arena.views.base import ArenaView, by_rule, mean_scores, rows_of_panels
from robustfl_bench.lab.arena.words import cells, listed, number
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 8  # rules with names in the picture
_COUNT = "byzantine_accepted"


@dataclass(frozen=True)
class Detection:
    """The shares in percent of attackers that a rule drops, and of honest clients: by partition, and over all attacked
    runs. A rule that drops nobody or everybody in each run does not ``choose``."""

    attackers: float
    honest: float
    honest_by_partition: dict[str, float]
    chooses: bool


def detections(arena: Arena, of: int) -> dict[str, Detection]:
    """Of each rule whose runs count accepted clients, by the last round of each run with this number of attackers."""
    counted = (run for run in arena.settled[of] if is_attacked(run) and _COUNT in run.last)
    honest = arena.track.clients - of
    return {rule: _detection(runs, of, honest) for rule, runs in by_rule(counted).items()}


def _detection(runs: Sequence[ArenaRun], attackers: int, honest: int) -> Detection:
    def dropped(of: Sequence[ArenaRun]) -> float:
        return fmean(100 * run.last["honest_dropped"] / honest for run in of)

    partitions = dict.fromkeys(run.partition for run in runs)
    counts = {(run.last[_COUNT], run.last["honest_dropped"]) for run in runs}
    return Detection(
        attackers=fmean(100 * (1 - run.last[_COUNT] / attackers) for run in runs),
        honest=dropped(runs),
        honest_by_partition={name: dropped([run for run in runs if run.partition == name]) for name in partitions},
        chooses=not counts <= {(attackers, 0), (0, honest)},
    )


def answer(arena: Arena, of: int) -> str:
    """Whether rules fail by dropping honest clients or by trusting attackers, in single runs and as rules."""
    scores = mean_scores(arena.row(of))
    known = {rule: found for rule, found in detections(arena, of).items() if found.chooses and rule in scores}
    if len(known) < 3:
        return f"with {arena.share(of)} attackers, fewer than three rules choose among clients"
    runs = [run for run in arena.settled[of] if run.rule in known and is_attacked(run) and _COUNT in run.last]
    accuracies = [run.accuracy for run in runs]
    by_honest = rank_correlation(accuracies, [run.last["honest_dropped"] for run in runs])
    by_attackers = rank_correlation(accuracies, [run.last[_COUNT] for run in runs])
    ordered = [scores[rule] for rule in known]
    found = list(known.values())
    return (
        f"with {arena.share(of)} attackers, the {len(known)} rules that choose among clients drop "
        f"{fmean(rule.attackers for rule in found):.0f}% of the attackers and "
        f"{fmean(rule.honest for rule in found):.0f}% of the honest clients. Over their {len(runs)} attacked runs, low "
        f"accuracy goes {'more' if abs(by_honest) > abs(by_attackers) else 'less'} with dropping honest clients (rank "
        f"correlation {by_honest:+.2f}) than with accepting attackers ({by_attackers:+.2f}). Which rule is better is "
        f"another question: over the rules, the mean score goes with the honest clients dropped by "
        f"{rank_correlation(ordered, [rule.honest for rule in found]):+.2f}, and with the attackers dropped by "
        f"{rank_correlation(ordered, [rule.attackers for rule in found]):+.2f}"
    )


def _sheets(arena: Arena) -> list[Sheet]:
    pages = []
    for of, row in rows_of_panels(arena):
        scores, known = mean_scores(row), detections(arena, of)
        if not known:
            continue
        by_score = sorted(known, key=lambda rule: -scores.get(rule, -1.0))
        idle = [rule for rule in by_score if not known[rule].chooses]
        rows = [cells([
            rule, number(known[rule].attackers), number(known[rule].honest),
            *(number(known[rule].honest_by_partition[panel.partition]) if panel.partition in
              known[rule].honest_by_partition else "" for panel in row),
            number(scores[rule]) if rule in scores else "",
        ]) for rule in by_score if known[rule].chooses]  # fmt: skip
        pages.append(Sheet(
            above=[f"{arena.track.title(of)}: detection of attackers", f"{answer(arena, of)}."],
            heading=["rule", "attackers dropped", "honest dropped", *(panel.partition for panel in row), "score"],
            rows=rows,
            footnotes=[
                "dropped [%]: in the last round, the mean over partitions, attacks and seeds (attackers: the true "
                "positive rate, honest: the false positive rate, then by partition); earlier rounds are not kept. A "
                "client with less than a hundredth of the largest weight is dropped. score: mean over partitions",
                *([f"they weigh all clients, or none: {listed(sorted(idle))}"] if idle else []),
            ],
        ))  # fmt: skip
    if not pages:
        raise NoRuns(f"no run of arena {arena.track.name} counts the clients that its rule accepts")
    return pages


def _picture(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for of, row in rows_of_panels(arena):
        scores = mean_scores(row)
        known = {rule: found for rule, found in detections(arena, of).items() if found.chooses and rule in scores}
        named = sorted(known, key=lambda rule: -scores[rule])[:_SHOWN]
        points = [NamedPoint(rule, found.honest, found.attackers, _kind(scores[rule]), rule in named)
                  for rule, found in sorted(known.items(), key=lambda item: -scores[item[0]])]  # fmt: skip
        shown.append(ScatterPanel(f"{arena.share(of)} attackers", points))
    heading = f"Arena {arena.track.name}: whom rules drop, and their mean score"
    x, y = "Honest clients dropped [%]", "Attackers dropped [%]"
    return draw_scatter(shown, x, y, heading, frame=frame.at("column"))


def _kind(score: float) -> str:
    return "score 60 or more" if score >= 60 else "score 30 to 60" if score >= 30 else "score below 30"


VIEW = ArenaView("detection", "how well rules tell attackers from honest clients", _sheets, _picture)
