"""Whether cheaper data have the answers of dearer ones: a track's order of the rules beside that of the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import np
from robustfl_bench.lab.arena.additions import SEARCHING
from robustfl_bench.lab.arena.panels import ENOUGH, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import SERVER, tracks
from robustfl_bench.lab.arena.words import said, tabled
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.pages.pictures.points import NamedPoint, ScatterPanel, draw_scatter
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import Estimate, Interval, rank_correlation, rank_correlations
from robustfl_bench.read.tables.sheets import Sheet

BEST = 8
"""So many of a panel's best rules are its leaders, whose order is harder to foretell than that of all."""

_DRAWS = 1000
_NAMED = 5  # rules of a picture
_LIST = "the list"


@dataclass(frozen=True)
class Orders:
    """The scores in two panels of the rules that both have, under the attacks that both have: the ``list``, or the
    attack of SEARCHING that is named. ``track`` is asked whether it foretells ``panel``, so its score comes second."""

    panel: ArenaPanel
    track: str
    attacks: str
    scores: Mapping[str, tuple[Estimate, Estimate]]

    @cached_property
    def correlation(self) -> Interval:
        """Spearman's rank correlation of all rules."""
        return _correlated(list(self.scores.values()))

    @cached_property
    def leading(self) -> Interval | None:
        """That of the BEST in the other panel; None unless there are more rules than these."""
        best = sorted(self.scores.values(), key=lambda pair: -pair[1].value)[:BEST]
        return _correlated(best) if len(self.scores) > BEST else None

    @property
    def behind(self) -> float:
        """By how much the best rule of the other panel scores less here than the best of this one."""
        _, kept, _, best = self.chosen
        return best.value - kept.value

    @property
    def chosen(self) -> tuple[str, Estimate, str, Estimate]:
        """The best rule of the other panel with its score in this one, and the best of this one with its own."""
        there, here = (max(self.scores, key=lambda rule: self.scores[rule][place].value) for place in (1, 0))
        return there, self.scores[there][0], here, self.scores[here][0]


def _correlated(pairs: Sequence[tuple[Estimate, Estimate]]) -> Interval:
    """Spearman's rank correlation of the scores with its 95% interval over draws of the rules, with replacement."""
    from robustfl_bench.base import seeding  # late: it imports NumPy

    scores = np.array([[of.value for of in pair] for pair in pairs])
    drawn = seeding.generator(0, "rank correlation", len(pairs)).integers(len(pairs), size=(_DRAWS, len(pairs)))
    found = rank_correlations(scores[drawn].swapaxes(1, 2))
    low, high = np.nanquantile(found, [0.025, 0.975]).tolist()
    return Interval(rank_correlation(*scores.T), low, high, len(pairs))


def orders(arena: Arena) -> list[Orders]:
    """The panels of other tracks with the partition and the share of attackers of one of this track's, and at least
    ENOUGH rules of it, under the list and under the strongest attack that searches. Raises NoRuns if there are none."""
    others = list(_others(arena))
    found = [of for place in arena.by_list for other in others for of in _both(arena, place, other)]
    if not found:
        raise NoRuns(said("views.no_tracks", arena=arena, ENOUGH=ENOUGH))
    return found


def _others(arena: Arena) -> Iterator[Arena]:
    """The other tracks with runs."""
    for name in tracks():
        with suppress(NoRuns):
            if name != arena.track.name:
                yield arena.beside(name)


def _both(arena: Arena, place: tuple[int, str], other: Arena) -> Iterator[Orders]:
    number, partition = place
    there = next((of for of in other.by_list if (other.share(of[0]), of[1]) == (arena.share(number), partition)), None)
    if there is None:
        return
    by_attacks = {_LIST: _shared(arena.by_list[place], other.by_list[there])}
    if all(SEARCHING[-1] in of.searched for of in (arena, other)):
        by_attacks[SEARCHING[-1]] = _shared(arena.panels[place], other.panels[there])
    for attacks, scores in by_attacks.items():
        if len(scores) >= ENOUGH:
            yield Orders(arena.by_list[place], other.track.name, attacks, scores)


def _shared(panel: ArenaPanel, other: ArenaPanel) -> dict[str, tuple[Estimate, Estimate]]:
    """The scores of the rules that were run under all attacks of both panels, those that search included."""
    names = [rule for rule in panel.standings if rule != SERVER and rule in other.standings]
    pairs = {rule: (panel.standings[rule], other.standings[rule]) for rule in names
             if all(of.is_whole(rule) and rule not in of.unmet for of in (panel, other))}  # fmt: skip
    return {rule: (first.score, second.score) for rule, (first, second) in pairs.items()
            if not math.isnan(first.score.value + second.score.value)}  # fmt: skip


def sheets_of_tracks(arena: Arena) -> list[Sheet]:
    found = orders(arena)
    by_track = grouped(((of.track, of.attacks), of) for of in found)
    answers = [{"track": track, "attacks": attacks, "found": of} for (track, attacks), of in by_track.items()]
    return [tabled("views.tracks", found, arena=arena, answers=answers, BEST=BEST)]


def picture_of_tracks(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for of in (of for of in orders(arena) if of.leading):
        named = sorted(of.scores, key=lambda rule: -max(score.value for score in of.scores[rule]))[:_NAMED]
        points = [NamedPoint(rule, second.value, first.value, shown=rule in named)
                  for rule, (first, second) in of.scores.items()]  # fmt: skip
        under = "" if of.attacks == _LIST else f", {of.attacks}"
        shown.append(ScatterPanel(f"{of.track}{under}\n{of.panel.partition}, {arena.share(of.panel.number)}", points))
    heading = f"Scores in arena {arena.track.name} beside those in other tracks"
    return draw_scatter(shown, "score in the other track", "score here", heading, frame=frame)
