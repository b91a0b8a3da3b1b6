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
from robustfl_bench.lab.arena.words import listed, said, tabled
from robustfl_bench.read.pages.pictures.canvas import Frame
from robustfl_bench.read.pages.pictures.points import Dot, DotPanel, draw_dots
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet, Todo
from robustfl_bench.runner.config import compose

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FALL = 10  # points


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
    return said("views.stability_says", arena=arena, number=of, share=_share(falls(runs)), by_partition=by_partition,
                most=most, FALL=FALL)  # fmt: skip


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
        raise NoRuns(said("views.not_raced", arena=arena))
    return [race.look(panel, arena.track.looks) for panel in arena.panels.values()]


def answer_of_race(arena: Arena) -> str:
    """How many panels are settled, and how many rules need more seeds in the others."""
    looks = _looks(arena)
    going = [of for of in looks if of.more]
    settled = sum(of.pairs.share_settled >= race.SETTLED for of in looks)
    return said("views.race_says", arena=arena, looks=looks, settled=settled, going=going)


def _sheets_of_race(arena: Arena) -> list[Sheet]:
    looks, records, todos = _looks(arena), [], []
    for look in looks:
        words = [f"{listed(rule for rule, of_rule in look.more.items() if of_rule == seeds)} to {seeds} seeds"
                 for seeds in dict.fromkeys(look.more.values())]  # fmt: skip
        records.append({"look": look, "words": words, "seeds": pairs.seeds(look.panel, look.pairs.rules)})
        todos += [Todo("next", arena.titled(look.panel), command) for command in race.commands(arena, look)]
    return [tabled("views.race", records, arena=arena, seeds=[*map(str, arena.track.looks)], todos=todos,
                   answer=answer_of_race(arena), SETTLED=race.SETTLED, TOP=pairs.TOP, MARGIN=pairs.MARGIN)]  # fmt: skip


RACE = ArenaView(
    "race",
    "which rules need more seeds, and the commands that run them",
    _sheets_of_race,
    lambda arena, frame: leading(arena, frame=frame),
)
