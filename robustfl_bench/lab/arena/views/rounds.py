"""How far runs fall behind their best round, and which rules need more seeds, with the commands that run them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena import pairs, race
from robustfl_bench.lab.arena.order import is_attacked
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.picture import leading
from robustfl_bench.lab.arena.track import NONE, SERVER, ArenaRun
from robustfl_bench.lab.arena.views.base import ArenaView, by_rule, rows_of_panels
from robustfl_bench.lab.arena.words import cells, listed, number
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.pages.pictures.points import Dot, DotPanel, draw_dots
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet, Todo
from robustfl_bench.runner.config import compose

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FALL = 10.0  # points


def evaluated_rounds(arena: Arena) -> list[int]:
    """The rounds after which the runs of the track were evaluated."""
    config = compose.resolve([f"+experiment={arena.track.experiment}", "lr=1"]).config
    rounds, every = int(config["rounds"]), int(config["eval_every"])
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
    parts = ", ".join(f"{name} {share:.0f}%" for name, share in by_partition.items())
    return (
        f"with {arena.share(of)} attackers, {_share(falls(runs)):.0f}% of the attacked runs end more than {FALL:g} "
        f"points below their own best evaluated round ({parts}), most often those of {listed(most)}"
    )


def _share(values: Sequence[float]) -> float:
    return 100 * fmean(value > FALL for value in values) if values else math.nan


def _ended(arena: Arena, of: int) -> list[ArenaRun]:
    """The runs that did not diverge."""
    return [run for run in arena.settled[of] if not math.isnan(run.best)]


def _sheets_of_stability(arena: Arena) -> list[Sheet]:
    rounds, pages = evaluated_rounds(arena), []
    for of, _ in rows_of_panels(arena):
        attacked = by_rule(run for run in _ended(arena, of) if is_attacked(run))
        clean = by_rule(run for run in _ended(arena, of) if run.attack == NONE)
        by_fall = sorted(attacked, key=lambda rule: fmean(falls(attacked[rule])))
        pages.append(Sheet(
            above=[f"{arena.track.title(of)}: how far runs fall behind their best round", f"{answer(arena, of)}."],
            heading=["rule", "best round", "last round", "fall", f"fall > {FALL:g}", "fall without attack"],
            rows=[cells([
                rule,
                number(fmean(100 * run.best for run in attacked[rule])),
                number(fmean(100 * run.accuracy for run in attacked[rule])),
                number(fmean(falls(attacked[rule]))),
                f"{_share(falls(attacked[rule])):.0f}%",
                number(fmean(falls(clean[rule]))) if rule in clean else "",
            ]) for rule in by_fall],
            footnotes=[
                "best and last round: test accuracy [%], the mean over partitions, attacks and seeds; fall [points]; "
                f"fall > {FALL:g}: share of the runs. Models that diverged are left out",
                f"evaluated after rounds {listed(map(str, rounds))}; what happens between them is not kept, so a run "
                "that falls and recovers within these intervals is not seen",
            ],
        ))  # fmt: skip
    return pages


def _picture_of_stability(arena: Arena, frame: Frame) -> Figure:
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


STABILITY = ArenaView(
    "stability", "how far runs fall behind their best round", _sheets_of_stability, _picture_of_stability
)


def _looks(arena: Arena) -> list[race.SeedLook]:
    if not arena.track.is_raced:
        raise NoRuns(f"arena {arena.track.name} is not raced: all of its rules have {arena.track.looks[0]} seeds")
    return [race.look(panel, arena.track.looks) for panel in arena.panels.values()]


def answer_of_race(arena: Arena) -> str:
    """How many panels are settled, and how many rules need more seeds in the others."""
    looks = _looks(arena)
    going = [of for of in looks if of.more]
    settled = sum(of.pairs.share_settled >= race.SETTLED for of in looks)
    words = f"{settled} of {len(looks)} panels are settled"
    if not going:
        return f"{words}, and no rule gets more seeds"
    parts = [f"{arena.titled(of.panel)} {len(of.more)} rules" for of in going]
    return f"{words}; more seeds are needed in {listed(parts)}"


def _sheets_of_race(arena: Arena) -> list[Sheet]:
    looks, rows, todos = _looks(arena), [], []
    for of in looks:
        told, equal, left = map(len, (of.pairs.apart, of.pairs.equal, of.pairs.open))
        words = [f"{listed(rule for rule, of_rule in of.more.items() if of_rule == seeds)} to {seeds} seeds"
                 for seeds in dict.fromkeys(of.more.values())]  # fmt: skip
        rows.append(cells([
            arena.titled(of.panel), pairs.seeds(of.panel, of.pairs.rules), str(told), str(equal), str(left),
            of.why or "; ".join(words),
        ]))  # fmt: skip
        todos += [Todo("next", arena.titled(of.panel), command) for command in race.commands(arena, of)]
    seeds = [str(number) for number in arena.track.looks]
    return [Sheet(
        above=[f"Arena {arena.track.name}: which rules get more seeds", f"{answer_of_race(arena)}."],
        heading=["panel", "seeds", "told apart", "equal", "open", "next"],
        rows=rows,
        labels=1,
        footnotes=[
            f"the rule: all rules have {seeds[0]} seeds. A panel stops when {100 * race.SETTLED:.0f}% of the pairs of "
            f"its best {pairs.TOP} rules are told apart or equal. Until then those near the best {pairs.TOP}, with an "
            f"open pair among these, go on to {listed(seeds[1:])} seeds. near: cannot be told from the last of them",
            *pairs.MEANING[:1],
        ],
        todos=todos,
    )]  # fmt: skip


RACE = ArenaView(
    "race",
    "which rules need more seeds, and the commands that run them",
    _sheets_of_race,
    lambda arena, frame: leading(arena, frame=frame),
)
