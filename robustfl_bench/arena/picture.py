"""The arena as pictures: the rules by their worst case, and every rule under every attack."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.arena.scores import Score, in_order, scores
from robustfl_bench.arena.track import HONEST, NONE, SERVER, by_number, settle, track_and_runs
from robustfl_bench.pages.pictures import dots, heat
from robustfl_bench.pages.pictures.canvas import Frame
from robustfl_bench.pages.pictures.dots import Dot
from robustfl_bench.runs.where import check_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_PAGE = Frame(width="page")


def standing(table: pd.DataFrame, name: str) -> Figure:
    """Each rule's accuracy without attack and its worst case, with a panel for each number of attackers.

    ``table`` is that of ``records.load``. Raises ConfigError for an unknown track, NoRuns if it has none.
    """
    track, runs = track_and_runs(table, name)
    shown, partial = [], set[str]()
    for number, of in by_number(track, runs).items():
        score_of = scores(of)
        rules = [score for score in in_order(score_of, track.attacked) if score.cells]
        partial |= {score.rule for score in rules if score.cells < track.cells}
        references = {HONEST: HONEST, "server's own samples alone": SERVER}
        lines = {words: score_of[rule].worst for words, rule in references.items() if rule in score_of}
        shown.append(dots.DotPanel(f"{number} of {track.clients} clients are attackers", list(map(_dot, rules)), lines))
    heading = f"Arena {name}: the rules by their worst case"
    heading += f"; {len(partial)} of them have not been run in all cells" * bool(partial)
    return dots.draw(
        shown, "without attack", "worst case, 95% interval over seeds", "Test accuracy [%]", heading, _PAGE
    )


def _dot(score: Score) -> Dot:
    low, high = (score.spread.low, score.spread.high) if score.spread else (score.worst, score.worst)
    return Dot(score.rule, score.clean, score.worst, low, high)


def attacks(table: pd.DataFrame, name: str, number: int | None = None) -> Figure:
    """The accuracy of each rule under each attack with this number of attackers, by default the least: the mean over
    partitions and seeds. Rules are ordered by worst case, attacks by harm.

    ``table`` is that of ``records.load``. Raises ConfigError for an unknown track or number, NoRuns without runs.
    """
    import numpy as np

    track, runs = track_and_runs(table, name)
    number = track.numbers[0] if number is None else number
    check_name(str(number), list(map(str, track.numbers)), "number of attackers")
    settled = list(settle(runs, number))
    accuracies: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in settled:
        if run.state != "infeasible":
            accuracies[run.rule, run.attack].append(100 * run.accuracy)
    mean = {place: fmean(held) for place, held in accuracies.items()}
    rules = [score.rule for score in in_order(scores(settled), track.attacked)]
    harm = {attack: fmean([mean[rule, attack] for rule in rules if (rule, attack) in mean])
            for attack in track.swept["attack"] if any((rule, attack) in mean for rule in rules)}  # fmt: skip
    across = sorted(harm, key=lambda attack: (attack != NONE, -harm[attack]))
    numbers = np.array([[mean.get((rule, attack), math.nan) for attack in across] for rule in rules])
    worst = frozenset((row, min(held)[1]) for row, rule in enumerate(rules)
                      if (held := [(mean[rule, attack], column) for column, attack in enumerate(across)
                                   if attack != NONE and (rule, attack) in mean]))  # fmt: skip
    heading = f"{track.title(number)}; mean over partitions and seeds, framed: the worst attack on a rule"
    panel = heat.HeatPanel("", rules, across, numbers, worst)
    return heat.draw([panel], heat.Scale("Test accuracy [%]", 0, 100), "attack", "rule", heading, _PAGE)
