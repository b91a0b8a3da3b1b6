"""How far runs fall behind their best round, and which rules of a panel get more seeds, by a rule that is fixed before
the runs: the race.

All rules have the seeds of the first look. At each look the best TOP rules of a panel are compared with each other
(``pairs``), at a level that keeps 5% over all looks together. A panel is settled, and stops, when SETTLED of these
pairs are told apart or equal, or at the last look. Otherwise the rules near the best TOP, and of which a pair is open,
get the seeds of their next look.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from robustfl_bench.lab.arena.additions import SEARCHING
from robustfl_bench.lab.arena.order import (
    MARGIN,
    TOP,
    Pairs,
    by_rule,
    contenders,
    is_attacked,
    pairs,
    rows_of_panels,
    seeds,
)
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import NONE, SERVER, ArenaRun
from robustfl_bench.lab.arena.words import listed, said, tabled
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.pages.pictures.points import Dot, DotPanel, draw_dots
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import LEVEL, chance_if_equal
from robustfl_bench.read.tables.sheets import Sheet, Todo

FALL = 10  # points


def evaluated_rounds(arena: Arena) -> list[int]:
    """The rounds after which the runs of the track were evaluated."""
    rounds, every = (int(arena.track.config[name]) for name in ("rounds", "eval_every"))
    return sorted({*range(every, rounds + 1, every), rounds})


def falls(runs: Iterable[ArenaRun]) -> list[float]:
    """By how many points each run ends below its best evaluated round; diverged runs have no best round."""
    return [100 * (run.best - run.accuracy) for run in runs if not math.isnan(run.best)]


def answer(arena: Arena, of: int) -> str:
    """How many runs fall, in which partitions, and by which rules."""
    runs = [run for run in arena.settled[of] if is_attacked(run) and run.rule != SERVER]
    by_partition = {name: _share(falls(run for run in runs if run.partition == name))
                    for name in arena.track.swept["partition"]}  # fmt: skip
    of_rule = by_rule(run for run in _ended(arena, of) if is_attacked(run))
    most = sorted(of_rule, key=lambda rule: -_share(falls(of_rule[rule])))[:3]
    return said("views.stability_says", arena=arena, number=of, share=_share(falls(runs)), by_partition=by_partition,
                most=most, FALL=FALL)  # fmt: skip


def _share(values: Sequence[float]) -> float:
    return 100 * fmean(value > FALL for value in values) if values else math.nan


def _ended(arena: Arena, of: int) -> list[ArenaRun]:
    """The runs that did not diverge."""
    return [run for run in arena.settled[of] if not math.isnan(run.best)]


def sheets_of_stability(arena: Arena) -> list[Sheet]:
    rounds, pages = evaluated_rounds(arena), []
    for of, _ in rows_of_panels(arena):
        attacked = by_rule(run for run in _ended(arena, of) if is_attacked(run))
        clean = by_rule(run for run in _ended(arena, of) if run.attack == NONE)
        records = [{
            "rule": rule,
            "best": fmean(100 * run.best for run in attacked[rule]),
            "last": fmean(100 * run.accuracy for run in attacked[rule]),
            "fall": fmean(falls(attacked[rule])),
            "share": _share(falls(attacked[rule])),
            "clean": fmean(falls(clean[rule])) if rule in clean else None,
        } for rule in sorted(attacked, key=lambda rule: fmean(falls(attacked[rule])))]  # fmt: skip
        pages.append(tabled("views.stability", records, arena=arena, number=of, rounds=rounds, FALL=FALL,
                            answer=answer(arena, of)))  # fmt: skip
    return pages


def picture_of_stability(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for of, _ in rows_of_panels(arena):
        attacked = by_rule(run for run in _ended(arena, of) if is_attacked(run))
        lines = []
        for rule in sorted(attacked, key=lambda rule: fmean(falls(attacked[rule]))):
            last = fmean(100 * run.accuracy for run in attacked[rule])
            lines.append(Dot(rule, fmean(100 * run.best for run in attacked[rule]), last, last, last))
        shown.append(DotPanel(f"{arena.share(of)} attackers", lines))
    heading = f"Arena {arena.track.name}: mean accuracy under attack, in the best and in the last round"
    return draw_dots(shown, "best evaluated round", "last round", "Test accuracy [%]", heading, frame.at("column"))


SETTLED = 0.6
"""The share of the pairs of the best rules that settles a panel."""


@dataclass(frozen=True)
class SeedLook:
    """What a panel's results say at a look: the ``pairs`` of its best rules, the rules that get ``more`` seeds and how
    many each then has, and ``why`` the panel stops; empty if it goes on."""

    panel: ArenaPanel
    pairs: Pairs
    more: dict[str, int]
    why: str


def near(panel: ArenaPanel) -> list[str]:
    """The best TOP rules of a panel and those that a test at 5%, each alone, cannot tell from the last of them: to stop
    a rule is no claim about it, so nothing is corrected."""
    rules = contenders(panel)
    scores = panel.scores(rules)
    return [rule for place, rule in enumerate(rules)
            if place < TOP or chance_if_equal(scores[rules[TOP - 1]], scores[rule]) > 1 - LEVEL]  # fmt: skip


def look(panel: ArenaPanel, looks: Sequence[int]) -> SeedLook:
    """The look at a panel whose track has these ``looks``, the numbers of seeds."""
    found = pairs(panel)
    close = near(panel)
    undecided = {rule for pair in pairs(panel, close).open for rule in pair if {*pair} & {*found.rules}}
    more = {rule: following for rule in close if rule in undecided and panel.standings[rule].attack not in SEARCHING
            if (following := _next(panel.standings[rule].score.n, looks))}  # fmt: skip
    if not found.all:
        return SeedLook(panel, found, {}, "fewer than two rules have all attacks")
    if found.share_settled >= SETTLED:
        return SeedLook(
            panel, found, {}, f"settled: {100 * found.share_settled:.0f}% of the pairs are told apart or equal"
        )
    return SeedLook(panel, found, more, "" if more else f"not settled at the last look, {max(looks)} seeds")


def _next(seeds: int, looks: Sequence[int]) -> int:
    """The next look after this number of seeds; 0 after the last."""
    return next((of for of in looks if of > seeds), 0)


def commands(arena: Arena, of: SeedLook) -> list[str]:
    """The commands that make the runs which a panel asks for: one for each set of seeds, and the honest clients' mean
    for all of them."""
    track, panel = arena.track, of.panel
    place = f"num_byzantine={panel.number} partition={panel.partition}"
    by_seeds: dict[str, list[str]] = {}
    for rule, following in of.more.items():
        new = ",".join(map(str, range(panel.standings[rule].score.n, following)))
        name, options = arena.needs.asked_as(rule)
        by_seeds.setdefault(" ".join([f"seed={new}", *options]), []).append(name)
    lines = [f"robustfl-bench -m +experiment={track.experiment} {place} {words} aggregator={','.join(names)}"
             for words, names in by_seeds.items()]  # fmt: skip
    last = max(of.more.values(), default=0)
    if last > track.looks[0]:
        new = ",".join(map(str, range(track.looks[0], last)))
        lines.append(f"robustfl-bench -m +experiment={track.experiment}_honest {place} seed={new}")
    return lines


def _looks(arena: Arena) -> list[SeedLook]:
    if not arena.track.is_raced:
        raise NoRuns(said("views.not_raced", arena=arena))
    return [look(panel, arena.track.looks) for panel in arena.panels.values()]


def answer_of_race(arena: Arena) -> str:
    """How many panels are settled, and how many rules need more seeds in the others."""
    looks = _looks(arena)
    going = [of for of in looks if of.more]
    settled = sum(of.pairs.share_settled >= SETTLED for of in looks)
    return said("views.race_says", arena=arena, looks=looks, settled=settled, going=going)


def sheets_of_race(arena: Arena) -> list[Sheet]:
    looks, records, todos = _looks(arena), [], []
    for at in looks:
        words = [f"{listed(rule for rule, of_rule in at.more.items() if of_rule == count)} to {count} seeds"
                 for count in dict.fromkeys(at.more.values())]  # fmt: skip
        records.append({"look": at, "words": words, "seeds": seeds(at.panel, at.pairs.rules)})
        todos += [Todo("next", arena.titled(at.panel), command) for command in commands(arena, at)]
    return [tabled("views.race", records, arena=arena, seeds=[*map(str, arena.track.looks)], todos=todos,
                   answer=answer_of_race(arena), SETTLED=SETTLED, TOP=TOP, MARGIN=MARGIN)]  # fmt: skip
