"""What attackers who plan add to the attacks of a track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from robustfl_bench.arena import additions
from robustfl_bench.arena.additions import Addition
from robustfl_bench.arena.panels import HALF, Arena
from robustfl_bench.arena.picture import leading
from robustfl_bench.arena.planning import NAME
from robustfl_bench.arena.views.base import ArenaView
from robustfl_bench.runs.records import NoRuns
from robustfl_bench.tables.sheets import Sheet


def _found(arena: Arena) -> Sequence[Addition]:
    if not (found := arena.plans):
        raise NoRuns(f"no rule of arena {arena.track.name} was run under {NAME}; robustfl-bench arena attack {NAME} "
                     f"--protocol {arena.track.name} runs it")  # fmt: skip
    return found


def answer(arena: Arena) -> str:
    """In how many cases planning does more harm than the list, and which leading rules it breaks."""
    found = _found(arena)
    broken = [f"{arena.titled(of.panel)} {of.rule} ({of.panel.scaled(of.least):.0f} to {of.score.value:.0f})"
              for of in found if arena.panels[of.panel.number, of.panel.partition].standings[of.rule].attack == NAME
              and of.panel.scaled(of.least) >= HALF > of.score.value]  # fmt: skip
    words = additions.verdict(NAME, found)
    return f"{words}. Scores that it brings below {HALF:g}: {'; '.join(broken)}" if broken else words


def _sheets(arena: Arena) -> list[Sheet]:
    sheet = additions.sheet(arena, NAME, _found(arena))
    title = f"Arena {arena.track.name}: attackers who plan, against the list"
    return [replace(sheet, above=[title, f"{answer(arena)}."])]


VIEW = ArenaView(
    "planned",
    "what attackers who plan add to the list",
    _sheets,
    lambda arena, frame: leading(arena, frame=frame),
)
