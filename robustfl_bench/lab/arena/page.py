"""The arena as tables: which pairs of rules each panel tells apart, an overview of all partitions, a table for each
panel, flags. And as pictures: the rules' scores in all partitions, and every rule under every attack."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.late import np
from robustfl_bench.lab.arena import conditions, order
from robustfl_bench.lab.arena.additions import SEARCHING
from robustfl_bench.lab.arena.order import NEAR, TOP, WORST, contenders, likeness, mark, stability, strongest
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import HONEST, NONE, SERVER, Track
from robustfl_bench.lab.arena.words import LOWEST, SERVER_DATA, number, said, tabled
from robustfl_bench.read.pages.pictures import heat
from robustfl_bench.read.pages.pictures.canvas import PLAIN, WIDTHS, Figure, Frame, for_print, sheet, wrapped
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables.sheets import Printed, Sheet, Todo
from robustfl_bench.runner.config import options

if TYPE_CHECKING:
    from matplotlib.artist import Artist


_TOP = 15  # rules whose order between seeds is also compared
DIVISIONS = {"rules without server data": False, f"rules that read {SERVER_DATA}": True}
"""Names of the divisions, and whether the server's samples are read in them."""

UNMET = "not searched"
"""The group of a rule that the strongest attack did not meet."""


def sheets(arena: Arena) -> list[Sheet]:
    """The pairs that each panel tells apart; for each number of attackers a table of all partitions, then a table for
    each of its panels; then the flags."""
    pages = [order.sheet([arena])]
    for of in arena.settled:
        pages.append(_overview(arena, of))
        pages += [_panel(arena, panel) for panel in arena.row(of)]
    used = arena.table.iloc[[run.row for run in arena.runs]]
    kinds = sorted(set(used["processor"].dropna().astype(str)))
    processors = [said("tables.processors", kinds=kinds)] if kinds else []
    pages[0] = replace(pages[0], above=[*pages[0].above, *_doubled(arena), *processors, *origins(used)])
    return [*pages, conditions.doubts(arena.settled, arena.needs)]


def divided(arena: Arena, panel: ArenaPanel) -> Iterator[tuple[str, list[str], set[str]]]:
    """The divisions: name, rules in their order, and those that cannot be told from the best. Server alone is no rule
    of a division."""
    for name, reads in DIVISIONS.items():
        rules = [rule for rule in panel.standings if _is_in(arena, rule, reads)]
        yield name, rules, set(panel.best(rules))


def _is_in(arena: Arena, rule: str, reads: bool) -> bool:
    return rule != SERVER and (SERVER_DATA in arena.needs.of(rule)) == reads


def by_score(row: Sequence[ArenaPanel]) -> list[str]:
    """The rules by their mean score over some panels: first those that were run under all attacks in all of them."""
    held = {rule: [panel for panel in row if rule in panel.standings] for panel in row for rule in panel.standings}
    whole = {rule: len(of) == len(row) and all(panel.is_whole(rule) for panel in of) for rule, of in held.items()}
    means = {rule: fmean(panel.standings[rule].score.value for panel in of) for rule, of in held.items()}
    known = {rule: -math.inf if math.isnan(mean) else mean for rule, mean in means.items()}
    return sorted(known, key=lambda rule: (not whole[rule], -known[rule]))


def _overview(arena: Arena, of: int) -> Sheet:
    """The scores of the rules in all partitions."""
    row = arena.row(of)
    tops = {panel.partition: {rule for _, _, top in divided(arena, panel) for rule in panel.comparable_best(top)}
            for panel in row if panel.compares}  # fmt: skip

    def line(rule: str) -> dict[str, Any]:
        values = [panel.standings[rule].score.value if rule in panel.standings else math.nan for panel in row]
        scores = [Printed(number(value), best=rule != SERVER and rule in tops.get(panel.partition, ()))
                  for value, panel in zip(values, row, strict=True)]  # fmt: skip
        count = sum(panel.standings[rule].cells for panel in row if rule in panel.standings)
        return {"rule": rule, "scores": scores, "needs": ", ".join(arena.needs.of(rule)),
                "cost": arena.needs.cost(rule), "runs": count}  # fmt: skip

    held = {rule for panel in row for rule in panel.standings}
    empty = dict.fromkeys(("needs", "cost", "runs"))
    honest = ["" if math.isnan(panel.honest) else "100" for panel in row]
    records: list[Any] = [{"rule": HONEST, "scores": honest, **empty}, *map(line, {SERVER} & held)]
    for name, reads in DIVISIONS.items():
        rules = [rule for rule in by_score(row) if _is_in(arena, rule, reads)]
        records += [name, *map(line, rules)] if rules else []
    infeasible = sorted({rule for panel in row for rule in panel.infeasible} - held)
    records += [{"rule": rule, "scores": ["cannot run"] * len(row), **empty, "runs": 0} for rule in infeasible]
    return tabled("tables.overview", records, arena=arena, number=of, row=row, tops=tops,
                  agreement=_agreement(arena, of), todos=_todos(arena, of))  # fmt: skip


def _agreement(arena: Arena, of: int) -> list[str]:
    """What seeds and ``worst`` say, in words."""
    row, lines = arena.row(of), []
    whole, top = (None, None) if arena.track.is_raced else (stability(row), stability(row, _TOP))
    if whole is not None and top is not None:
        worst = [standing.worst for panel in row for standing in panel.standings.values() if standing.accuracies]
        lines.append(said("tables.seeds_agree", whole=whole, top=top, worst=worst))
    if (harm := strongest(arena.settled[of])) is not None:
        lines.append(said("tables.worst_harms", WORST=WORST, harm=harm, NEAR=NEAR))
    return lines


def _doubled(arena: Arena) -> list[str]:
    """The agreement of the rules' order with that at twice the size, if such runs exist."""
    if not options.exists("experiment", double := f"{arena.track.experiment}_double"):
        return []
    twice = Track(double.partition("/")[2])
    others = twice.runs(arena.table[arena.table["num_clients"] == twice.clients])
    alike = likeness(arena.settled.get(others[0].num_byzantine // 2, []), others) if others else None
    return [] if alike is None else [said("tables.doubled", alike=alike)]


def _panel(arena: Arena, panel: ArenaPanel) -> Sheet:
    """The rules of a panel."""
    records: list[Any] = [] if math.isnan(panel.honest) else [{"rule": HONEST, "honest": panel.honest}]
    records += [{"rule": SERVER, "of": panel.server}] if panel.server else []
    for name, rules, top in divided(arena, panel):
        groups = panel.groups(rules) if panel.compares else ()
        place = dict.fromkeys(panel.unmet, UNMET)
        place |= {rule: str(count) for count, group in enumerate(groups, 1) for rule in group}
        bold = panel.comparable_best(top)
        records += [name] * bool(rules)
        records += [{"rule": rule, "of": panel.standings[rule], "group": place.get(rule), "is_best": rule in bold}
                    for rule in rules]  # fmt: skip
    return tabled(
        "tables.panel",
        records,
        **{"of": None, "honest": None, "group": None, "is_best": False},
        arena=arena,
        panel=panel,
        seeds=order.seeds(panel, order.contenders(panel)),
        errors=order.errors(arena, panel),
        equal=sorted(map(" = ".join, order.pairs(panel).equal)),
        partial=[rule for rule in panel.standings if not panel.is_whole(rule)],
        MARGIN=order.MARGIN,
        SEARCHING=SEARCHING,
    )


def _todos(arena: Arena, of: int) -> list[Todo]:
    """The rules whose cells are missing, and the commands that run them."""
    partitions = arena.track.swept["partition"]
    held = {panel.partition: panel.standings for panel in arena.row(of)}
    rules = [rule for rule in dict.fromkeys(rule for standings in held.values() for rule in standings)
             if rule != SERVER or not arena.track.draws]  # fmt: skip
    by_options: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for rule in rules:
        counts = [held[name][rule].cells if rule in held.get(name, {}) else 0 for name in partitions]
        if min(counts) * len(partitions) < arena.track.cells:
            name, others = arena.needs.asked_as(rule)
            by_options[others][rule] = name
    alone = max((panel.server.score.n for panel in arena.row(of) if panel.server), default=0)
    draws = Todo("missing", f"{arena.track.draws - alone} of {arena.track.draws} draws of the server's own samples",
                 f"robustfl-bench -m +experiment={arena.track.experiment}_server")  # fmt: skip
    return [*[draws] * (alone < arena.track.draws)] + [
        Todo("missing", f"runs of {', '.join(names)}", arena.track.command(names.values(), others))
        for others, names in by_options.items()
    ]


def standing(arena: Arena, number: int | None = None, frame: Frame = PLAIN) -> Figure:
    """The score of each rule in each partition with this number of attackers, by default the least; framed where it
    cannot be told from the best rule of its division. Rules are ordered by their mean score.

    Raises ConfigError for a number that was not run.
    """
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
    beside = axis.get_yaxis_transform()
    marks = defaultdict[int, list[tuple[float, float]]](list)
    alone = []
    for place, panel in enumerate(arena.panels.values()):
        for division, (_, rules, top) in enumerate(divided(arena, panel)):
            best = next((rule for rule in rules if rule in top), None)
            if best is None:
                continue
            standing, height = panel.standings[best], place + 0.36 * (division - 0.5)
            marks[division].append((standing.score.value, height))
            bounds = panel.interval(standing)
            low, high = (bounds.low, bounds.high) if bounds else (standing.score.value,) * 2
            axis.plot([low, high], [height, height], color=_COLOURS[division], linewidth=1)
            name = f"{frame.name(best)}{_MARK * bool(mark(panel, best))}"
            axis.text(1.02, height, name, transform=beside, va="center", fontsize=6.5, color=_COLOURS[division])
        if panel.server:
            alone.append((panel.server.score.value, place))
    for division, points in marks.items():
        axis.plot(*zip(*points, strict=True), "os"[division], color=_COLOURS[division], markersize=5)
    for division, name in enumerate(DIVISIONS):
        axis.plot([], [], "os"[division], color=_COLOURS[division], markersize=5, label=f"best of the {name}")
    if alone:
        axis.plot(*zip(*alone, strict=True), "|", color="#555555", markersize=10, label="the server's data alone")
    axis.set_yticks(
        range(len(arena.panels)),
        [wrapped(frame.name(arena.titled(panel)), width / 4) for panel in arena.panels.values()],
    )
    axis.invert_yaxis()
    axis.set_xlim(-3, 106)
    scale = f"score on {conditions.data_of(arena)}, {LOWEST}: 0 is guessing, 100 what the honest clients alone reach"
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
