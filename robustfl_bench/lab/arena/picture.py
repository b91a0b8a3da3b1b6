"""The arena as pictures: the rules' scores in all partitions, and every rule under every attack."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena.order import TOP, contenders, mark
from robustfl_bench.lab.arena.page import DIVISIONS, by_score, divided
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import NONE, SERVER
from robustfl_bench.lab.arena.words import LOWEST, SERVER_DATA
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import PLAIN, WIDTHS, Frame, for_print, sheet, wrapped
from robustfl_bench.read.runs.where import check_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure


def standing(arena: Arena, number: int | None = None, frame: Frame = PLAIN) -> Figure:
    """The score of each rule in each partition with this number of attackers, by default the least; framed where it
    cannot be told from the best rule of its division. Rules are ordered by their mean score.

    Raises ConfigError for a number that was not run.
    """
    import numpy as np

    number = _known(arena, number)
    row = arena.row(number)
    rules = [SERVER] if any(panel.server for panel in row) else []
    rules += [rule for rule in by_score(row) if rule != SERVER]
    numbers = np.array([[panel.standings[rule].score.value if rule in panel.standings else math.nan for panel in row]
                        for rule in rules])  # fmt: skip
    best = [{rule for _, _, top in divided(arena, panel) for rule in panel.comparable_best(top)} for panel in row]
    framed = frozenset((place, column) for place, rule in enumerate(rules) for column, top in enumerate(best)
                       if rule in top)  # fmt: skip
    heading = arena.track.title(number)
    if framed:
        heading += "; framed: cannot be told from the best with, or without, server data"
    panel = heat.HeatPanel("", rules, [panel.partition for panel in row], numbers, framed)
    return heat.draw([panel], heat.Scale("Score", 0, 100), "", "", heading, frame.at("column"))


def attacks(arena: Arena, number: int | None = None, frame: Frame = PLAIN) -> Figure:
    """The accuracy of each rule under each attack with this number of attackers, by default the least: the mean over
    partitions of the means over seeds. Rules are ordered by mean score, attacks by harm.

    Raises ConfigError for a number that was not run.
    """
    import numpy as np

    number = _known(arena, number)
    accuracies = defaultdict[tuple[str, str], defaultdict[str, list[float]]](lambda: defaultdict(list))
    for run in arena.settled[number]:
        if run.state != "infeasible":
            accuracies[run.rule, run.attack][run.partition].append(100 * run.accuracy)
    mean = {place: fmean(map(fmean, by_partition.values())) for place, by_partition in accuracies.items()}
    rules = by_score(arena.row(number))
    harm = {attack: fmean([mean[rule, attack] for rule in rules if (rule, attack) in mean])
            for attack in arena.track.swept["attack"] if any((rule, attack) in mean for rule in rules)}  # fmt: skip
    across = sorted(harm, key=lambda attack: (attack != NONE, -harm[attack]))
    numbers = np.array([[mean.get((rule, attack), math.nan) for attack in across] for rule in rules])
    worst = frozenset((row, min(held)[1]) for row, rule in enumerate(rules)
                      if (held := [(mean[rule, attack], column) for column, attack in enumerate(across)
                                   if attack != NONE and (rule, attack) in mean]))  # fmt: skip
    heading = f"{arena.track.title(number)}; mean over partitions and seeds, framed: the worst attack on a rule"
    panel = heat.HeatPanel("", rules, across, numbers, worst)
    return heat.draw([panel], heat.Scale("Test accuracy [%]", 0, 100), "attack", "rule", heading, frame.at("page"))


_COLOURS = ("#2166ac", "#d6604d")
"""Without and with server data."""

_MARK = " †"
_UNMET = "hollow: attackers who search were not run against it"


@for_print
def leading(arena: Arena, number: int | None = None, frame: Frame = PLAIN) -> Figure:
    """The best rules of each panel with this number of attackers, by default the least: their scores with intervals, by
    whether they read server data, and that of the server alone as a band.

    Raises ConfigError for a number that was not run.
    """
    row = arena.row(number := _known(arena, number))
    shown = [contenders(panel)[:TOP] for panel in row]
    figure = sheet(WIDTHS[frame.width or "column"], 0.9 + sum(0.35 + 0.13 * len(rules) for rules in shown))
    heights = [max(len(rules), 1) for rules in shown]
    axes = figure.subplots(len(row), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    handles: dict[str, Artist] = {}
    for panel, rules, axis in zip(row, shown, axes, strict=True):
        for place, rule in enumerate(rules):
            of, reads = panel.standings[rule], SERVER_DATA in arena.needs.of(rule)
            known = panel.interval(of)
            ends = [(of.score.value - known.low,), (known.high - of.score.value,)] if known else None
            hollow = rule in panel.unmet
            handles[_UNMET if hollow else [*DIVISIONS][reads]] = axis.errorbar(
                of.score.value, place, xerr=ends, fmt="os"[reads], color=_COLOURS[reads], linewidth=1,
                markerfacecolor="white" if hollow else None,
            )  # fmt: skip
        if panel.server and (band := panel.interval(panel.server)):
            handles["the server's own samples alone"] = axis.axvspan(band.low, band.high, color="#cccccc", linewidth=0)
        axis.set_yticks(range(len(rules)), [frame.name(rule) for rule in rules])
        axis.set_ylim(max(len(rules), 1) - 0.5, -0.5)
        axis.set_title(frame.name(arena.titled(panel)))
        axis.set_xlim(-3, 106)
        axis.grid(True, axis="x")
        axis.set_axisbelow(True)
    scale = f"score, {LOWEST}: 0 is guessing, 100 the honest clients alone"
    axes[-1].set_xlabel(wrapped(scale, 0.6 * figure.get_figwidth()))
    figure.legend(
        list(handles.values()), list(handles), loc="outside upper center", frameon=False, borderpad=0, labelspacing=0.2
    )
    return figure


@for_print
def answer(arena: Arena, frame: Frame = PLAIN) -> Figure:
    """The best rule of each division in each panel: its score, the lowest known so far, with its interval, by whether
    it reads server data."""
    width = WIDTHS[frame.width or "column"]
    figure = sheet(width, 0.9 + 0.31 * len(arena.panels))
    axis = figure.subplots()
    marks = defaultdict[int, list[tuple[float, float]]](list)
    alone = []
    for place, panel in enumerate(arena.panels.values()):
        for number, (_, rules, top) in enumerate(divided(arena, panel)):
            best = next((rule for rule in rules if rule in top), None)
            if best is None:
                continue
            standing, height = panel.standings[best], place + 0.36 * (number - 0.5)
            marks[number].append((standing.score.value, height))
            bounds = panel.interval(standing)
            low, high = (bounds.low, bounds.high) if bounds else (standing.score.value,) * 2
            axis.plot([low, high], [height, height], color=_COLOURS[number], linewidth=1)
            axis.text(
                1.02,
                height,
                f"{frame.name(best)}{_MARK * bool(mark(panel, best))}",
                transform=axis.get_yaxis_transform(),
                va="center",
                fontsize=6.5,
                color=_COLOURS[number],
            )
        if panel.server:
            alone.append((panel.server.score.value, place))
    for number, points in marks.items():
        axis.plot(*zip(*points, strict=True), "os"[number], color=_COLOURS[number], markersize=5)
    for number, name in enumerate(DIVISIONS):
        axis.plot([], [], "os"[number], color=_COLOURS[number], markersize=5, label=f"best of the {name}")
    if alone:
        axis.plot(*zip(*alone, strict=True), "|", color="#555555", markersize=10, label="the server's data alone")
    axis.set_yticks(
        range(len(arena.panels)),
        [wrapped(frame.name(arena.titled(panel)), width / 4) for panel in arena.panels.values()],
    )
    axis.invert_yaxis()
    axis.set_xlim(-3, 106)
    scale = f"score, {LOWEST}: 0 is guessing, 100 what the honest clients alone reach"
    axis.set_xlabel(wrapped(frame.axis("x", scale), 0.6 * width))
    axis.grid(True, axis="x")
    if any(text.get_text().endswith(_MARK) for text in axis.texts):
        axis.plot([], [], " ", label=f"{_MARK.strip()}: does not beat the server's data alone")
    figure.legend(loc="outside upper center", ncols=3 if width == WIDTHS["page"] else 1, frameon=False)
    return figure


def _known(arena: Arena, number: int | None) -> int:
    """The number, by default the least that was run. Raises ConfigError for one that was not."""
    if number is None:
        return min(arena.settled)
    check_name(str(number), map(str, arena.settled), "number of attackers")
    return number
