"""What the panels of a raced track show, in sentences whose numbers are computed from its runs, and tracks beside each
other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

from robustfl_bench.lab.arena.answers.findings import NEAR, clean_accuracy, heterogeneity, idle, near
from robustfl_bench.lab.arena.conditions import conditioned
from robustfl_bench.lab.arena.pairs import TOP, beside_server, contenders, pairs
from robustfl_bench.lab.arena.panels import ENOUGH, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.views import books
from robustfl_bench.lab.arena.views.attacks import answer
from robustfl_bench.lab.arena.views.rounds import SETTLED
from robustfl_bench.lab.arena.words import HALF, SERVER_DATA, bounds, ends, number, said, sentence, span, tabled
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import chance_if_equal, rank_correlation, rejected
from robustfl_bench.read.tables.sheets import Printed, Sheet


def conclusions(arena: Arena, earlier: Arena) -> list[str]:
    """The conclusions, the most important first, each left out where the runs do not show it; ``earlier`` is an older
    track with panels of the same names."""
    lines = [above_the_server(arena), half(arena), plans(arena), tuning(arena), heterogeneity(arena)]
    lines += [worst_attacks(arena), told_apart(arena, earlier), order(arena), order_against(arena, earlier)]
    return [line for line in [*lines, clean_accuracy(arena), idle(arena)] if line]


def at_a_glance(arena: Arena, earlier: Arena) -> Sheet:
    """The same for each panel, as a table."""
    records = []
    for place, panel in arena.panels.items():
        rules = contenders(panel)
        above, below = beside_server(panel, rules)
        records.append({
            "panel": panel, "rules": rules, "above": above, "below": below, "keeping": _keeping(panel),
            "near": near(panel), "reading": [rule for rule in above if SERVER_DATA in arena.needs.of(rule)],
            "worst": Counter(panel.standings[rule].attack for rule in rules).most_common(1)[0],
            "order": _beside(arena.by_list[place], earlier),
        })  # fmt: skip
    return conditioned(tabled("findings.glance", records, arena=arena, earlier=earlier, NEAR=NEAR), arena)


def above_the_server(arena: Arena) -> str:
    """Where rules score above the server's own samples alone, and which of those that read them do everywhere."""
    panels = [panel for panel in arena.panels.values() if panel.server]
    if not panels:
        return ""
    above = {panel: beside_server(panel, contenders(panel))[0] for panel in panels}
    reads = {rule for rules in above.values() for rule in rules if SERVER_DATA in arena.needs.of(rule)}
    blind = {panel: [rule for rule in rules if rule not in reads] for panel, rules in above.items()}
    partitions = dict.fromkeys(panel.partition for panel in panels)
    never = [name for name in partitions if not any(blind[panel] for panel in panels if panel.partition == name)]
    counts = [
        {"number": attackers, "counts": [len(blind[panel]) for panel in row]} for attackers in arena.settled
        if (row := [panel for panel in panels if panel.number == attackers and panel.partition not in never])
    ]  # fmt: skip
    often = Counter(rule for rules in above.values() for rule in rules if rule in reads).most_common(2)
    return said("findings.above_the_server", arena=arena, never=never, counts=counts, often=often, panels=panels)


def half(arena: Arena) -> str:
    """How many rules keep half of what honest clients reach."""
    rows = []
    for attackers in arena.settled:
        row = sorted(arena.row(attackers), key=_keeping)
        between = span(*(f"{_keeping(panel)} ({panel.partition})" for panel in (row[0], row[-1])))
        rows.append({"number": attackers, "ends": between, "rules": len(contenders(row[0]))})
    return said("findings.half", arena=arena, rows=rows)


def _keeping(panel: ArenaPanel) -> int:
    """How many rules keep half of what honest clients reach."""
    return sum(panel.standings[rule].score.value >= HALF for rule in contenders(panel))


def plans(arena: Arena) -> str:
    """What attackers who plan do beyond the list."""
    with suppress(NoRuns):
        return f"{sentence(answer(arena))}."
    return ""


def tuning(arena: Arena) -> str:
    """What tuning changes."""
    with suppress(NoRuns):
        return said("findings.tuning", answer=books.answer(arena, books.books(arena)))
    return ""


def worst_attacks(arena: Arena) -> str:
    """How often each attack is the worst for a rule."""
    counts = Counter(panel.standings[rule].attack for panel in arena.panels.values() for rule in contenders(panel))
    never = [name for name in arena.track.swept["attack"][1:] if name not in counts]
    return said("findings.worst_attacks", counts=counts, never=never)


def told_apart(arena: Arena, earlier: Arena) -> str:
    """The share of pairs told apart in the panels of both tracks, and in how many panels enough pairs are settled."""
    known, before = ([of for panel in track.panels.values() if (of := pairs(panel)).all] for track in (arena, earlier))
    shares, shares_earlier = (f"{ends(100 * of.share_apart for of in every)}%" if every else "none"
                              for every in (known, before))  # fmt: skip
    settled = sum(of.share_settled >= SETTLED for of in known)
    return said("findings.told_apart", earlier=earlier, shares=shares, shares_earlier=shares_earlier, settled=settled,
                panels=len(known), TOP=TOP, SETTLED=SETTLED)  # fmt: skip


def order(arena: Arena) -> str:
    """How alike the orders of the rules are in the panels."""
    held = [found for first, second in combinations(arena.panels.values(), 2)
            if (found := correlation(first, second)) is not None]  # fmt: skip
    return said("findings.order", held=held) if held else ""


def order_against(arena: Arena, earlier: Arena) -> str:
    """How alike the order of the rules is to that in the same panels of another track."""
    known = [(_beside(panel, earlier), arena.titled(panel)) for panel in arena.by_list.values()]
    held = sorted((found, panel) for found, panel in known if found is not None)
    if not held:
        return ""
    between = span(*(f"{found:.2f} ({panel})" for found, panel in (held[0], held[-1])))
    return said("findings.order_against", earlier=earlier, ends=between)


def _beside(panel: ArenaPanel, earlier: Arena) -> float | None:
    """The rank correlation with the same panel of another track; None without one."""
    other = earlier.by_list.get((panel.number, panel.partition))
    return correlation(panel, other) if other is not None else None


def correlation(first: ArenaPanel, second: ArenaPanel) -> float | None:
    """The rank correlation of the worst cases of the rules that both panels have; None for too few."""
    shared = [rule for rule in first.run_enough(contenders(first)) if rule in second.run_enough(contenders(second))]
    if len(shared) < ENOUGH:
        return None
    return rank_correlation(*([of.standings[rule].worst for rule in shared] for of in (first, second)))


def compared(base: Arena, others: Sequence[Arena]) -> Iterator[Sheet]:
    """For each panel of a track that others have by the same name: the scores of the rules in all of them."""
    for place, panel in base.by_list.items():
        held = {arena.track.name: arena.by_list[place] for arena in others if place in arena.by_list}
        if held:
            yield _sheet(base, panel, held)


def _sheet(base: Arena, panel: ArenaPanel, held: Mapping[str, ArenaPanel]) -> Sheet:
    shown = {base.track.name: panel, **held}
    known = [set(contenders(of)) for of in held.values()]
    rules = [rule for rule in contenders(panel) if any(rule in others for others in known)]
    best = {track: _best(of, rules) for track, of in shown.items()}
    records = [{"rule": rule, "scores": [Printed(_score(of, rule), best=rule in best[track])
                                         for track, of in shown.items()]}
               for rule in [*rules, *[SERVER] * any(of.server is not None for of in shown.values())]]  # fmt: skip
    changes = [{"track": track, **_change(panel, of)} for track, of in held.items()]
    return tabled("findings.compared", records, base=base, panel=panel, shown=shown, changes=changes, ENOUGH=ENOUGH)


def _best(panel: ArenaPanel, rules: Sequence[str]) -> set[str]:
    """The rules that cannot be told from the best; none if too few were run."""
    known = panel.run_enough(rules)
    return panel.comparable_best(panel.best(known)) if len(known) >= ENOUGH else set()


def _score(panel: ArenaPanel, rule: str) -> str:
    if rule not in panel.standings or not panel.is_whole(rule):
        return ""
    standing = panel.standings[rule]
    return number(standing.score.value) + bounds(panel.interval(standing))


def _change(first: ArenaPanel, second: ArenaPanel) -> dict[str, Any]:
    """Which rules score higher or lower in the second panel beyond the seeds, and how alike the orders are."""
    before, after = (panel.scores(contenders(panel)) for panel in (first, second))
    shared = [rule for rule in before if rule in after]
    chances = {rule: chance_if_equal(before[rule], after[rule]) for rule in shared}
    moved = rejected(chances, max(first.level, second.level))
    up = [rule for rule in shared if rule in moved and after[rule].value > before[rule].value]
    down = [rule for rule in shared if rule in moved and rule not in up]
    return {"shared": len(shared), "up": up, "down": down, "order": correlation(first, second)}


def orders(base: Arena, others: Sequence[Arena]) -> Sheet:
    """How alike the orders of the rules are in the panels of other tracks and in those of a track."""
    panels = list(base.by_list.values())
    records = [{"arena": arena, "panel": panel, "rules": contenders(panel), "found": [
                "" if (alike := correlation(panel, of)) is None else f"{alike:.2f}" for of in panels]}
               for arena in others for panel in arena.by_list.values()]  # fmt: skip
    return tabled("findings.orders", records, base=base, panels=panels)
