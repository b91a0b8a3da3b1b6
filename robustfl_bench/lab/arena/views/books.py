"""The two rule books beside each other: every rule as it comes, and tuned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.lab.arena.pairs import seeds
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel, Standing
from robustfl_bench.lab.arena.track import SERVER, Track
from robustfl_bench.lab.arena.tuned import SCALES, TunedChoice, TunedTrack
from robustfl_bench.lab.arena.views.base import ArenaView
from robustfl_bench.lab.arena.words import bounds, cells, listed, number, span
from robustfl_bench.read.pages.pictures.canvas import WIDTHS, Frame, for_print, sheet
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import Interval, chance_if_equal, difference, rank_correlation, rejected
from robustfl_bench.read.tables.sheets import Printed, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 4  # scores that a sentence names
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
    for (count, partition), other in tuned.panels.items():
        plain = arena.by_list[count, partition]
        rules = [
            Tuning(rule, rates[rule, partition], standing, other.standings[rule], choices[rule, partition, count])
            for rule, standing in plain.standings.items()
            if rule != SERVER and rule in other.standings and plain.is_whole(rule) and other.is_whole(rule)
        ]
        found += [Books(plain, rules)] if rules else []
    if not found:
        raise _nothing(arena.track)
    return found


def _tuned(arena: Arena) -> Arena:
    name = arena.track.name
    try:
        return Arena(arena.table, name, book=TunedTrack)
    except (ConfigError, NoRuns):
        raise _nothing(arena.track) from None


def _nothing(track: Track) -> NoRuns:
    command = f"robustfl-bench arena enter RULE --protocol {track.name} --book tuned"
    return NoRuns(f"no rule of arena {track.name} was tuned; {command} tunes one, if the track has trials")


def answer(arena: Arena, found: Sequence[Books]) -> str:
    """How many scores tuning moves, which of them most, and whether the order changes."""
    parts = []
    for verb, sign in (("raises", 1), ("lowers", -1)):
        moved = [(sign * rule.gain, of, rule) for of in found for rule in of.moved(sign)]
        names = (f"{rule.rule} in {arena.titled(of.panel)} ({rule.plain.score.value:.0f} to "
                 f"{rule.tuned.score.value:.0f})"
                 for _, of, rule in sorted(moved, key=lambda one: -one[0]))  # fmt: skip
        parts.append(f"{verb} {len(moved)}" + (f": {listed(names, _NAMED)}" if moved else ""))
    cases = sum(len(of.rules) for of in found)
    alike = sorted(of.agreement for of in found if of.agreement == of.agreement)
    order = ""
    if alike:
        ends = span(*(f"{value:.2f}" for value in (alike[0], alike[-1])))
        order = f". Both books order the rules of a panel alike by {ends}"
    return f"of {cases} scores (rule and panel) tuning, beyond the seeds, {'; it '.join(parts)}{order}"


def _sheets_of_books(arena: Arena) -> list[Sheet]:
    found = books(arena)
    return [_overview(arena, found), *_pages(arena, found)]


def _overview(arena: Arena, found: Sequence[Books]) -> Sheet:
    rows = [cells([
        of.panel.partition, str(of.panel.number), str(len(of.rules)), str(len(of.moved(1))), str(len(of.moved(-1))),
        number(of.agreement, 2), max(of.rules, key=lambda rule: rule.plain.score.value).rule,
        max(of.rules, key=lambda rule: rule.tuned.score.value).rule,
    ]) for of in found]  # fmt: skip
    return Sheet(
        above=[f"Arena {arena.track.name}: rules as they come, and tuned", f"{answer(arena, found)}."],
        heading=["partition", "attackers", "rules", "raised", "lowered", "order", "best as it comes", "best tuned"],
        rows=rows,
        labels=2,
        footnotes=[
            "raised, lowered: rules whose score changes beyond the seeds, by Welch's test with the level of the panel, "
            "corrected for the number of its rules (Benjamini and Hochberg). order: Spearman's rank correlation of the "
            "scores in both books",
            *_meaning(arena),
        ],
    )


def _pages(arena: Arena, found: Sequence[Books]) -> Iterator[Sheet]:
    for of in found:
        rows = []
        for rule in of.rules:
            trial, score = rule.choice.trial, rule.tuned.score
            options = ", ".join(option.removeprefix("aggregator.") for option in trial.options)
            rows.append([
                Printed(rule.rule),
                *cells([
                    number(rule.plain.score.value) + bounds(of.panel.interval(rule.plain)),
                    number(score.value) + bounds(of.panel.interval(rule.tuned)),
                ]),
                Printed(f"{rule.gain:+.1f}{bounds(rule.interval)}", best=rule.rule in of.moving),
                *cells([
                    rule.plain.attack, rule.tuned.attack, f"{rule.rate:g}", f"{trial.lr:g}",
                    options, number(100 * rule.choice.accuracy),
                ]),
            ])  # fmt: skip
        yield Sheet(
            above=[f"{arena.track.title(of.panel.number)}, {of.panel.partition}: rules as they come, and tuned",
                   f"chance is {of.panel.chance:.1f}%; {seeds(of.panel, [rule.rule for rule in of.rules])} seeds"],
            heading=["rule", "as it comes", "tuned", "gain", "by", "tuned, by", "rate", "tuned rate", "tuned scale",
                     "validation"],
            rows=rows,
            bold="the score changes beyond the seeds (see the first table)",
            footnotes=["gain: with its 95% interval (Welch), not corrected for the number of rules"],
        )  # fmt: skip


def _meaning(arena: Arena) -> list[str]:
    track = TunedTrack(arena.track.name)
    rates, scales = track.rates, listed(f"{scale:g}" for scale in SCALES)
    return [
        "as it comes: default options, at the rate that validation without attack chooses for the partition. tuned: "
        f"the best of {len(rates)} trials in this panel, as many for every rule. Both are scores by the "
        "list of attacks alone, see the tables of the panels. by: the attack of the worst case",
        f"a rule without a scale tries {len(rates)} rates from {rates[0]:g} to {rates[-1]:g}. A rule with one, which "
        f"is a length of updates, tries its default and {scales} median lengths of an honest update in a training "
        "without attack, each at a quarter as many rates",
        "validation [%]: the number that chose. The least over the attacks "
        f"{listed(track.tuning['attack'])} of the mean accuracy on validation data over the seeds "
        f"{listed(track.seeds)}, which no table shows; of each run, the mean of its last evaluations",
    ]


@for_print
def _picture_of_books(arena: Arena, frame: Frame) -> Figure:
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


BOOKS = ArenaView("books", "the rules as they come against the rules tuned", _sheets_of_books, _picture_of_books)
