"""The two rule books beside each other: every rule as it comes, and tuned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.lab.arena.order import seeds
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel, Standing
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.tuned import SCALES, TunedChoice, TunedTrack
from robustfl_bench.lab.arena.words import each, said, tabled
from robustfl_bench.read.pages.pictures.canvas import WIDTHS, Figure, Frame, for_print, sheet
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import Interval, chance_if_equal, difference, rank_correlation, rejected
from robustfl_bench.read.tables.sheets import Sheet

_ACROSS = 2  # panels of the picture beside each other


@dataclass(frozen=True)
class Tuning:
    """A rule in a panel as it comes, at its ``rate``, and tuned, with the trial that validation chose."""

    rule: str
    rate: float
    plain: Standing
    tuned: Standing
    choice: TunedChoice

    @property
    def gain(self) -> float:
        """The score tuned minus that as it comes."""
        return self.tuned.score.value - self.plain.score.value

    @property
    def interval(self) -> Interval | None:
        """The gain with its 95% interval; None with a single seed."""
        return difference(self.tuned.score, self.plain.score)


@dataclass(frozen=True)
class Books:
    """The rules of a panel that were run under all attacks in both books, the best as they come first. The server
    alone, to which no attack comes, is none."""

    panel: ArenaPanel
    rules: Sequence[Tuning]

    @cached_property
    def moving(self) -> set[str]:
        """The rules whose score tuning changes beyond the seeds: Welch's test, corrected for the number of rules."""
        return rejected({rule.rule: chance_if_equal(rule.tuned.score, rule.plain.score) for rule in self.rules},
                        self.panel.level)  # fmt: skip

    def moved(self, sign: int) -> list[Tuning]:
        """The rules that tuning raises (1) or lowers (-1) beyond the seeds, those that move most first."""
        return sorted((rule for rule in self.rules if rule.rule in self.moving and sign * rule.gain > 0),
                      key=lambda rule: -sign * rule.gain)  # fmt: skip

    def best(self, book: str) -> str:
        """The rule with the highest score in a book, ``plain`` or ``tuned``."""
        highest: Tuning = max(self.rules, key=lambda rule: getattr(rule, book).score.value)
        return highest.rule

    @property
    def agreement(self) -> float:
        """Spearman's rank correlation of the scores of both books; nan for fewer than three rules."""
        if len(self.rules) < 3:
            return math.nan
        scores = [[getattr(rule, book).score.value for rule in self.rules] for book in ("plain", "tuned")]
        return rank_correlation(*scores)


def books(arena: Arena) -> list[Books]:
    """Both books in each panel where rules were tuned. Raises NoRuns if none was."""
    tuned = _tuned(arena)
    choices = tuned.track.choices(arena.table) if isinstance(tuned.track, TunedTrack) else {}
    rates = {(run.rule, run.partition): run.lr for run in arena.runs}
    found = []
    for (count, partition), other in tuned.by_list.items():
        plain = arena.by_list[count, partition]
        rules = [
            Tuning(rule, rates[rule, partition], standing, other.standings[rule], choices[rule, partition, count])
            for rule, standing in plain.standings.items()
            if rule != SERVER and rule in other.standings and plain.is_whole(rule) and other.is_whole(rule)
        ]
        found += [Books(plain, rules)] if rules else []
    if not found:
        raise _nothing(arena)
    return found


def _tuned(arena: Arena) -> Arena:
    name = arena.track.name
    try:
        return arena.beside(name, TunedTrack)
    except (ConfigError, NoRuns):
        raise _nothing(arena) from None


def _nothing(arena: Arena) -> NoRuns:
    return NoRuns(said("views.not_tuned", arena=arena))


def answer(arena: Arena, found: Sequence[Books]) -> str:
    """How many scores tuning moves, which of them most, and whether the order changes."""
    moves = []
    for verb, sign in (("raises", 1), ("lowers", -1)):
        moved = [(of, rule) for of in found for rule in of.moved(sign)]
        moved.sort(key=lambda move: -sign * move[1].gain)
        moves.append(said("views.books_move", verb=verb, moved=each("views.books_moved", moved, arena=arena)))
    alike = [of.agreement for of in found if not math.isnan(of.agreement)]
    return said("views.books_say", cases=sum(len(of.rules) for of in found), moves=moves, alike=alike)


def sheets_of_books(arena: Arena) -> list[Sheet]:
    found, track = books(arena), TunedTrack(arena.track.name)
    scales = [f"{scale:g}" for scale in SCALES]
    pages = [tabled("views.books", found, arena=arena, answer=answer(arena, found), track=track, scales=scales)]
    for of in found:
        counted = seeds(of.panel, [rule.rule for rule in of.rules])
        pages.append(tabled("views.books_of_panel", of.rules, arena=arena, of=of, seeds=counted))
    return pages


@for_print
def picture_of_books(arena: Arena, frame: Frame) -> Figure:
    found = books(arena)
    most = max(len(of.rules) for of in found)
    lines = math.ceil(len(found) / _ACROSS)
    figure = sheet(WIDTHS[frame.width or "page"], 0.4 + lines * (0.5 + 0.15 * most))
    axes = figure.subplots(lines, _ACROSS, squeeze=False).flat
    for axis in axes[len(found) :]:
        axis.set_axis_off()
    for axis, of in zip(axes, found, strict=False):
        for place, rule in enumerate(of.rules):
            scores = rule.plain.score.value, rule.tuned.score.value
            axis.plot(scores, [place, place], color="#b0b0b0", linewidth=1.2, zorder=1)
            axis.plot(scores[0], place, "o", markersize=4.5, markerfacecolor="white", markeredgecolor="#2166ac",
                      label="as it comes" if not place else None)  # fmt: skip
            axis.plot(scores[1], place, "o", markersize=4.5, color="#d6604d", label="tuned" if not place else None)
        names = [frame.name(rule.rule) + " *" * (rule.rule in of.moving) for rule in of.rules]
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(most - 0.5, -0.5)
        axis.set_xlim(-3, 103)
        axis.set_title(frame.name(arena.titled(of.panel)))
        axis.set_xlabel("score")
        axis.grid(True, axis="x")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False,
                  title="score under the worst attack; *: the score changes beyond the seeds")  # fmt: skip
    return figure
