"""Which classes an attack harms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.panels import REFERENCE, Arena
from robustfl_bench.lab.arena.track import NONE, ArenaRun
from robustfl_bench.lab.arena.views.base import ArenaView, by_rule, rows_of_panels
from robustfl_bench.lab.arena.words import cells, listed, number
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

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


def _sheets(arena: Arena) -> list[Sheet]:
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


def _picture(arena: Arena, frame: Frame) -> Figure:
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


VIEW = ArenaView("classes", "which classes an attack harms", _sheets, _picture)
