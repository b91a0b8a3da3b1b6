"""Which rules need more seeds, and the commands that run them."""

from __future__ import annotations

from robustfl_bench.lab.arena import pairs, race
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.picture import leading
from robustfl_bench.lab.arena.views.base import ArenaView
from robustfl_bench.lab.arena.words import cells, listed
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet, Todo


def _looks(arena: Arena) -> list[race.SeedLook]:
    if not arena.track.is_raced:
        raise NoRuns(f"arena {arena.track.name} is not raced: all of its rules have {arena.track.looks[0]} seeds")
    return [race.look(panel, arena.track.looks) for panel in arena.panels.values()]


def answer(arena: Arena) -> str:
    """How many panels are settled, and how many rules need more seeds in the others."""
    looks = _looks(arena)
    going = [of for of in looks if of.more]
    settled = sum(of.pairs.share_settled >= race.ENOUGH for of in looks)
    words = f"{settled} of {len(looks)} panels are settled"
    if not going:
        return f"{words}, and no rule gets more seeds"
    parts = [f"{arena.titled(of.panel)} {len(of.more)} rules" for of in going]
    return f"{words}; more seeds are needed in {listed(parts)}"


def _sheets(arena: Arena) -> list[Sheet]:
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
        above=[f"Arena {arena.track.name}: which rules get more seeds", f"{answer(arena)}."],
        heading=["panel", "seeds", "told apart", "equal", "open", "next"],
        rows=rows,
        labels=1,
        footnotes=[
            f"the rule: all rules have {seeds[0]} seeds. A panel stops when {100 * race.ENOUGH:.0f}% of the pairs of "
            f"its best {pairs.TOP} rules are told apart or equal. Until then those near the best {pairs.TOP}, with an "
            f"open pair among these, go on to {listed(seeds[1:])} seeds. near: cannot be told from the last of them",
            *pairs.MEANING[:1],
        ],
        todos=todos,
    )]  # fmt: skip


VIEW = ArenaView(
    "race",
    "which rules need more seeds, and the commands that run them",
    _sheets,
    lambda arena, frame: leading(arena, frame=frame),
)
