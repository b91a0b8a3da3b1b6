"""How well rules tell attackers from honest clients, and which classes an attack harms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import np
from robustfl_bench.lab.arena.order import by_rule, is_attacked, mean_scores, rows_of_panels
from robustfl_bench.lab.arena.panels import REFERENCE, Arena
from robustfl_bench.lab.arena.track import NONE, ArenaRun
from robustfl_bench.lab.arena.words import said, tabled
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet

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
        return said("views.detection_of_few", arena=arena, number=of)
    runs = [run for run in arena.settled[of] if run.rule in known and is_attacked(run) and _COUNT in run.last]
    accuracies, ordered = [run.accuracy for run in runs], [scores[rule] for rule in known]
    return said(
        "views.detection_says",
        arena=arena,
        number=of,
        runs=len(runs),
        rules=len(known),
        attackers=fmean(found.attackers for found in known.values()),
        honest=fmean(found.honest for found in known.values()),
        by_honest=rank_correlation(accuracies, [run.last["honest_dropped"] for run in runs]),
        by_attackers=rank_correlation(accuracies, [run.last[_COUNT] for run in runs]),
        rules_by_honest=rank_correlation(ordered, [found.honest for found in known.values()]),
        rules_by_attackers=rank_correlation(ordered, [found.attackers for found in known.values()]),
    )


def sheets_of_detection(arena: Arena) -> list[Sheet]:
    pages = []
    for number, row in rows_of_panels(arena):
        scores, known = mean_scores(row), detections(arena, number)
        by_score = sorted(known, key=lambda rule: -scores.get(rule, -1.0))
        records = [{"rule": rule, "found": known[rule], "score": scores.get(rule),
                    "by_partition": [known[rule].honest_by_partition.get(panel.partition) for panel in row]}
                   for rule in by_score if known[rule].chooses]  # fmt: skip
        idle = sorted(rule for rule in known if not known[rule].chooses)
        partitions = [panel.partition for panel in row]
        if known:
            pages.append(tabled("views.detection", records, arena=arena, number=number, partitions=partitions,
                                idle=idle, answer=answer(arena, number)))  # fmt: skip
    if not pages:
        raise NoRuns(f"no run of arena {arena.track.name} counts the clients that its rule accepts")
    return pages


def picture_of_detection(arena: Arena, frame: Frame) -> Figure:
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


LOST = 10  # percent of recall below which a class counts as lost


def recalls(arena: Arena, of: int) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """For each rule and partition the mean over seeds of the recall by class in percent, under the attack of the worst
    case; and for each partition that of the plain mean without attack."""
    attack = {(rule, panel.partition): standing.attack for panel in arena.row(of)
              for rule, standing in panel.standings.items()}  # fmt: skip
    runs = by_rule(arena.settled[of])
    clean = grouped((run.partition, run.recall) for run in runs.get(REFERENCE, ()) if run.attack == NONE and run.recall)
    classes = max((len(recall) for lists in clean.values() for recall in lists), default=0)

    def mean(lists: Sequence[Sequence[float]]) -> np.ndarray:
        whole = [recall or [0.0] * classes for recall in lists]  # a model that diverged knows no class
        return np.asarray(100 * np.nanmean(whole, axis=0))

    worst = {
        rule: grouped(
            (run.partition, run.recall or []) for run in own if run.attack == attack.get((rule, run.partition))
        )
        for rule, own in runs.items()
    }
    means = {rule: {partition: mean(lists) for partition, lists in held.items()} for rule, held in worst.items()}
    return {rule: held for rule, held in means.items() if held}, {name: mean(lists) for name, lists in clean.items()}


def losses(arena: Arena, of: int) -> tuple[dict[str, np.ndarray], dict[str, dict[str, np.ndarray]]]:
    """For each rule the loss of recall by class in points, the mean over partitions; and the recalls behind it."""
    of_rule, reference = recalls(arena, of)
    if not reference or not of_rule:
        raise NoRuns(f"no recall by class of arena {arena.track.name}, or none of {REFERENCE} without attack")
    shared = {rule: [reference[name] - recall for name, recall in held.items() if name in reference]
              for rule, held in of_rule.items()}  # fmt: skip
    return {rule: np.mean(of, axis=0) for rule, of in shared.items() if of}, of_rule


def sheets_of_classes(arena: Arena) -> list[Sheet]:
    pages = []
    for number, row in rows_of_panels(arena):
        lost, held = losses(arena, number)
        gone = {rule: {name: float((recall < LOST).sum()) for name, recall in of.items()} for rule, of in held.items()}
        by_partition = {panel.partition: np.mean([counts[panel.partition] for counts in gone.values()
                                                  if panel.partition in counts]) for panel in row}  # fmt: skip
        records = [{"rule": rule, "lost": lost[rule].tolist(), "all": float(lost[rule].mean()),
                    "gone": fmean(gone[rule].values())}
                   for rule in sorted(lost, key=lambda rule: float(lost[rule].mean()))]  # fmt: skip
        mean = np.mean(list(lost.values()), axis=0)
        order = np.argsort(-mean).tolist()
        pages.append(tabled("views.classes", records, arena=arena, number=number, mean=mean.tolist(), order=order,
                            by_partition=by_partition, LOST=LOST))  # fmt: skip
    return pages


def picture_of_classes(arena: Arena, frame: Frame) -> Figure:
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
