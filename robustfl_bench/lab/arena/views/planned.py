"""What attackers who plan add to the attacks of a track."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from robustfl_bench.lab.arena import additions
from robustfl_bench.lab.arena.additions import Addition
from robustfl_bench.lab.arena.panels import HALF, Arena
from robustfl_bench.lab.arena.picture import leading
from robustfl_bench.lab.arena.planning import NAME
from robustfl_bench.lab.arena.views.base import ArenaView
from robustfl_bench.lab.arena.words import listed
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Printed, Sheet


def _found(arena: Arena) -> Sequence[Addition]:
    if not (found := arena.plans):
        raise NoRuns(f"no rule of arena {arena.track.name} was run under {NAME}; robustfl-bench arena attack {NAME} "
                     f"--protocol {arena.track.name} runs it")  # fmt: skip
    return found


def answer(arena: Arena) -> str:
    """In how many cases planning does more harm than the list, and which leading rules it breaks."""
    found = _found(arena)
    broken = sorted(
        (of for of in found if of.panel.scaled(of.least) >= HALF > of.score.value),
        key=lambda of: of.score.value - of.panel.scaled(of.least),
    )
    worst = sum(of.attack == NAME for panel in arena.panels.values() for of in panel.standings.values())
    words = f"{additions.verdict(NAME, found)}. It counts by its mean: it is the worst case in {worst} of these cases"
    if not broken:
        return words
    most = [f"{of.rule} in {arena.titled(of.panel)} ({of.panel.scaled(of.least):.0f} to {of.score.value:.0f})"
            for of in broken]  # fmt: skip
    return f"{words}. Scores of {HALF:g} and more that it brings below {HALF:g}: {listed(most, 3)}"


def _sheets(arena: Arena) -> list[Sheet]:
    found = _found(arena)
    sheet, carried = additions.sheet(arena, NAME, found), _carried_out(arena)
    rows = [[*row, Printed(listed(carried.get((of.panel.number, of.panel.partition, of.rule), ["unknown"])))]
            for row, of in zip(sheet.rows, found, strict=True)]  # fmt: skip
    title = f"Arena {arena.track.name}: attackers who plan, against the list"
    meaning = "carried out: the attacks of their pool that they ended with, the most frequent first"
    return [replace(sheet, above=[title, f"{answer(arena)}."], heading=[*sheet.heading, "carried out"], rows=rows,
                    footnotes=[*sheet.footnotes, meaning])]  # fmt: skip


def _carried_out(arena: Arena) -> dict[tuple[int, str, str], list[str]]:
    """The attacks of the pool with which the runs of a rule in a panel ended; unknown where all models diverged."""
    from robustfl_bench.parts.attacks.planned import POOL

    names, counts = [*POOL], defaultdict[tuple[int, str, str], Counter[str]](Counter)
    for run in arena.planned:
        if (place := run.last.get("attack_policy")) is not None:
            counts[run.num_byzantine, run.partition, run.rule][names[int(place)]] += 1
    return {where: [name for name, _ in of.most_common()] for where, of in counts.items()}


VIEW = ArenaView(
    "planned",
    "what attackers who plan add to the list",
    _sheets,
    lambda arena, frame: leading(arena, frame=frame),
)
