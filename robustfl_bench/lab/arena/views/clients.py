"""How well rules tell attackers from honest clients, and which classes an attack harms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.order import is_attacked
from robustfl_bench.lab.arena.panels import REFERENCE, Arena
from robustfl_bench.lab.arena.track import NONE, ArenaRun
from robustfl_bench.lab.arena.views.base import ArenaView, by_rule, mean_scores, rows_of_panels
from robustfl_bench.lab.arena.words import cells, listed, number
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet

if TYPE_CHECKING:
    import numpy as np
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


def _sheets_of_detection(arena: Arena) -> list[Sheet]:
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


def _picture_of_detection(arena: Arena, frame: Frame) -> Figure:
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


DETECTION = ArenaView(
    "detection", "how well rules tell attackers from honest clients", _sheets_of_detection, _picture_of_detection
)


LOST = 10.0  # percent of recall below which a class counts as lost


def recalls(arena: Arena, of: int) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """For each rule and partition the mean over seeds of the recall by class in percent, under the attack of the worst
    case; and for each partition that of the plain mean without attack."""
    import numpy as np

    attack = {(rule, panel.partition): standing.attack for panel in arena.row(of)
              for rule, standing in panel.standings.items()}  # fmt: skip
    runs = by_rule(arena.settled[of])
    clean = _by_partition(run for run in runs.get(REFERENCE, []) if run.attack == NONE and run.recall)
    classes = max((len(recall) for lists in clean.values() for recall in lists), default=0)

    def mean(lists: Sequence[Sequence[float]]) -> np.ndarray:
        whole = [recall or [0.0] * classes for recall in lists]  # a model that diverged knows no class
        return np.asarray(100 * np.nanmean(whole, axis=0))

    worst = {rule: _by_partition(run for run in own if run.attack == attack.get((rule, run.partition)))
             for rule, own in runs.items()}  # fmt: skip
    means = {rule: {partition: mean(lists) for partition, lists in held.items()} for rule, held in worst.items()}
    return {rule: held for rule, held in means.items() if held}, {name: mean(lists) for name, lists in clean.items()}


def _by_partition(runs: Iterable[ArenaRun]) -> dict[str, list[Sequence[float]]]:
    """The recalls of some runs; none of a model that diverged."""
    held: dict[str, list[Sequence[float]]] = {}
    for run in runs:
        held.setdefault(run.partition, []).append(run.recall or [])
    return held


def losses(arena: Arena, of: int) -> tuple[dict[str, np.ndarray], dict[str, dict[str, np.ndarray]]]:
    """For each rule the loss of recall by class in points, the mean over partitions; and the recalls behind it."""
    import numpy as np

    of_rule, reference = recalls(arena, of)
    if not reference or not of_rule:
        raise NoRuns(f"no recall by class of arena {arena.track.name}, or none of {REFERENCE} without attack")
    shared = {rule: [reference[name] - recall for name, recall in held.items() if name in reference]
              for rule, held in of_rule.items()}  # fmt: skip
    return {rule: np.mean(of, axis=0) for rule, of in shared.items() if of}, of_rule


def _answer(arena: Arena, of: int, lost: Mapping[str, np.ndarray], held: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    import numpy as np

    mean = np.mean(list(lost.values()), axis=0)
    order = np.argsort(-mean)
    by_partition = {panel.partition: np.mean([float((recall[panel.partition] < LOST).sum()) for recall in held.values()
                                              if panel.partition in recall]) for panel in arena.row(of)}  # fmt: skip
    parts = ", ".join(f"{name} {count:.1f}" for name, count in by_partition.items())
    return (
        f"with {arena.share(of)} attackers, a rule in its worst case has lost on average so many of {len(mean)} "
        f"classes (recall below {LOST:g}%): {parts}; the classes that lose most are {listed(map(str, order[:3]))} "
        f"({mean[order[0]]:.0f} points for {order[0]}), and {order[-1]} loses least ({mean[order[-1]]:.0f})"
    )


def _sheets_of_classes(arena: Arena) -> list[Sheet]:
    pages = []
    for of, _ in rows_of_panels(arena):
        lost, held = losses(arena, of)
        rows = []
        for rule in sorted(lost, key=lambda rule: float(lost[rule].mean())):
            gone = [float((recall < LOST).sum()) for recall in held[rule].values()]
            rows.append(cells([rule, *(f"{value:.0f}" for value in lost[rule]), f"{lost[rule].mean():.0f}",
                               number(sum(gone) / len(gone))]))  # fmt: skip
        classes = len(next(iter(lost.values())))
        pages.append(Sheet(
            above=[f"{arena.track.title(of)}: harm by class", f"{_answer(arena, of, lost, held)}."],
            heading=["rule", *map(str, range(classes)), "mean", "classes lost"],
            rows=rows,
            footnotes=[
                "a class: by how many points its recall is below that of the plain mean without attack, under the "
                f"attack of the worst case, the mean over partitions and seeds. classes lost: with a recall below "
                f"{LOST:g}%, the mean over partitions"
            ],
        ))  # fmt: skip
    return pages


def _picture_of_classes(arena: Arena, frame: Frame) -> Figure:
    import numpy as np

    shown = []
    numbers = [of for of, _ in rows_of_panels(arena)]
    order = sorted(lost := losses(arena, numbers[0])[0], key=lambda rule: float(lost[rule].mean()))
    for of in numbers:
        of_rule, _ = losses(arena, of)
        classes = len(next(iter(of_rule.values())))
        values = np.array([of_rule.get(rule, np.full(classes, np.nan)) for rule in order])
        shown.append(heat.HeatPanel(f"{arena.share(of)} attackers", order, list(map(str, range(classes))), values))
    heading = f"Arena {arena.track.name}: loss of recall in the worst case, by class"
    return heat.draw(shown, heat.Scale("Loss of recall [points]", 0, 100), "class", "", heading, frame.at("page"))


CLASSES = ArenaView("classes", "which classes an attack harms", _sheets_of_classes, _picture_of_classes)
