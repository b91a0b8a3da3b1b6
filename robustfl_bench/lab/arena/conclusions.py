"""What the panels of a raced track show, in sentences whose numbers are computed from its runs, and tracks beside each
other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations

from robustfl_bench.lab.arena.conditions import LOWEST, conditioned
from robustfl_bench.lab.arena.findings import NEAR, clean_accuracy, heterogeneity, idle, near
from robustfl_bench.lab.arena.page import SCORE_MEANING
from robustfl_bench.lab.arena.pairs import TOP, beside_server, contenders, pairs
from robustfl_bench.lab.arena.panels import ENOUGH, HALF, SERVER_DATA, Arena, ArenaPanel
from robustfl_bench.lab.arena.race import SETTLED
from robustfl_bench.lab.arena.track import SERVER
from robustfl_bench.lab.arena.views import books
from robustfl_bench.lab.arena.views.attacks import answer
from robustfl_bench.lab.arena.words import bounds, cells, listed, number, sentence, span
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import chance_if_equal, rank_correlation, rejected
from robustfl_bench.read.tables.sheets import Printed, Sheet


def conclusions(arena: Arena, earlier: Arena) -> list[str]:
    """The conclusions, the most important first, each left out where the runs do not show it; ``earlier`` is an older
    track with panels of the same names."""
    lines = [above_the_server(arena), half(arena), plans(arena), tuning(arena), heterogeneity(arena)]
    lines += [
        worst_attacks(arena),
        told_apart(arena, earlier),
        order(arena),
        order_against(arena, earlier),
        clean_accuracy(arena),
        idle(arena),
    ]
    return [line for line in lines if line]


def at_a_glance(arena: Arena, earlier: Arena) -> Sheet:
    """The same for each panel, as a table."""
    rows = []
    for place, panel in arena.panels.items():
        rules, found = contenders(panel), _beside(arena.by_list[place], earlier)
        above, below = beside_server(panel, rules)
        reading = [rule for rule in above if SERVER_DATA in arena.needs.of(rule)]
        attack, often = Counter(panel.standings[rule].attack for rule in rules).most_common(1)[0]
        rows.append(cells([
            arena.titled(panel), str(len(rules)), str(_keeping(panel)), str(near(panel)),
            str(len(above) - len(reading)) if panel.server else "", listed(reading, 3) if panel.server else "",
            str(len(below)) if panel.server else "", f"{attack} {often}",
            "" if found is None else f"{found:.2f}",
        ]))  # fmt: skip
    heading = ["panel", "rules", f"{HALF:g} or more", f"within {NEAR:g}", "above the server", "above it, with its data",
               "below the server", "worst attack", f"order of {earlier.track.name}"]  # fmt: skip
    glance = Sheet(
        above=[f"Arena {arena.track.name}: its panels at a glance"],
        heading=heading,
        rows=rows,
        footnotes=[
            f"numbers of rules. {HALF:g} or more: score. within {NEAR:g}: points of the honest clients' mean, under "
            "every attack",
            "above, below the server: than the server's own samples alone, beyond the seeds (Welch tests at 5%, "
            f"corrected for the number of rules); above it: rules without {SERVER_DATA}, then those that read it. An "
            "attack that was not run may lower a rule, and none lowers the server",
            "worst attack: the worst case of the most rules, and of how many. order of "
            f"{earlier.track.name}: rank correlation with the worst cases of the same rules there",
        ],
    )
    return conditioned(glance, arena)


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
        f"{_span(sorted(len(blind[panel]) for panel in row))} with {arena.share(number)} attackers"
        for number in arena.settled
        if (row := [panel for panel in panels if panel.number == number and panel.partition not in never])
    ]
    often = Counter(rule for rules in above.values() for rule in rules if rule in reads)
    than = f"above the server's own samples alone beyond the seeds, by scores that are {LOWEST}"
    line = f"Rules without {SERVER_DATA} that are {than}"
    if never:
        line = f"In {listed(never)} no rule without {SERVER_DATA} is {than}"
    ending = f"{'; elsewhere' if never else ':'} {listed(counts)}" if counts else ""
    reading = listed(f"{rule} in {count} of {len(panels)} panels" for rule, count in often.most_common(2))
    return f"{line}{ending}{f'. Of those that read them: {reading}' if often else ''}."


def half(arena: Arena) -> str:
    """How many rules keep half of what honest clients reach."""
    parts = []
    for attackers in arena.settled:
        row = sorted(arena.row(attackers), key=_keeping)
        ends = span(*(f"{_keeping(panel)} ({panel.partition})" for panel in (row[0], row[-1])))
        parts.append(f"{ends} of {len(contenders(row[0]))} with {arena.share(attackers)} attackers")
    return (
        f"Number of rules that keep at least {HALF:g}% of what the honest clients alone reach, whatever the attack: "
        f"{', '.join(parts)}."
    )


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
        return f"Defaults decide. {sentence(books.answer(arena, books.books(arena)))}."
    return ""


def worst_attacks(arena: Arena) -> str:
    """How often each attack is the worst for a rule."""
    counts = Counter(panel.standings[rule].attack for panel in arena.panels.values() for rule in contenders(panel))
    words = ", ".join(f"{attack} {count}" for attack, count in counts.most_common())
    never = [name for name in arena.track.swept["attack"][1:] if name not in counts]
    ending = f"; never: {listed(never)}" if never else ""
    return f"Of the {counts.total()} worst cases (rule and panel), so many are due to each attack: {words}{ending}."


def told_apart(arena: Arena, earlier: Arena) -> str:
    """The share of pairs told apart in the panels of both tracks."""
    return (
        f"Of the pairs of the best {TOP} rules of a panel, {_shares(arena)} can be told apart ({earlier.track.name}: "
        f"{_shares(earlier)}); {_reached(arena)} are told apart or equal."
    )


def _reached(arena: Arena) -> str:
    """In how many panels enough pairs are told apart or equal."""
    shares = [known.share_settled for panel in arena.panels.values() if (known := pairs(panel)).all]
    return f"in {sum(share >= SETTLED for share in shares)} of {len(shares)} panels at least {100 * SETTLED:.0f}%"


def _shares(arena: Arena) -> str:
    """The shares of pairs told apart, the least and the largest."""
    shares = [100 * known.share_apart for panel in arena.panels.values() if (known := pairs(panel)).all]
    return f"{_span(sorted(shares))}%" if shares else "none"


def order(arena: Arena) -> str:
    """How alike the orders of the rules are in the panels."""
    held = [found for first, second in combinations(arena.panels.values(), 2)
            if (found := correlation(first, second)) is not None]  # fmt: skip
    if not held:
        return ""
    return (
        "The orders of the rules in two panels have a rank correlation of "
        f"{_span(sorted(held), 2)} (1: the same order)."
    )


def order_against(arena: Arena, earlier: Arena) -> str:
    """How alike the order of the rules is to that in the same panels of another track."""
    known = [(_beside(panel, earlier), arena.titled(panel)) for panel in arena.by_list.values()]
    held = sorted((found, panel) for found, panel in known if found is not None)
    if not held:
        return ""
    ends = span(*(f"{found:.2f} ({panel})" for found, panel in (held[0], held[-1])))
    return (
        f"The order of the rules and that of the same rules in the same panel of {earlier.track.name} have a rank "
        f"correlation of {ends}."
    )


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


def _span(ascending: Sequence[float], digits: int = 0) -> str:
    return span(*(f"{number:.{digits}f}" for number in (ascending[0], ascending[-1])))


def compared(base: Arena, others: Sequence[Arena]) -> Iterator[Sheet]:
    """For each panel of a track that others have by the same name: the scores of the rules in all of them."""
    for place, panel in base.by_list.items():
        held = {arena.track.name: arena.by_list[place] for arena in others if place in arena.by_list}
        if held:
            yield _sheet(base, panel, held)


def _sheet(base: Arena, panel: ArenaPanel, held: Mapping[str, ArenaPanel]) -> Sheet:
    name, shown = base.track.name, {base.track.name: panel, **held}
    known = [set(contenders(of)) for of in held.values()]
    rules = [rule for rule in contenders(panel) if any(rule in others for others in known)]
    rows = [*rules, *[SERVER] * any(of.server is not None for of in shown.values())]
    best = {track: _best(of, rules) for track, of in shown.items()}
    return Sheet(
        above=[
            f"Arena {listed(shown)}: {base.titled(panel)}",
            *(f"{track} against {name}: {_change(panel, of)}" for track, of in held.items()),
        ],
        heading=["rule", *shown],
        rows=[[Printed(rule), *(Printed(_score(of, rule), best=rule in best[track]) for track, of in shown.items())]
              for rule in rows],
        bold=f"cannot be told from the best of the {ENOUGH} or more rules of its column, with the most seeds",
        footnotes=[
            *SCORE_MEANING[:1],
            "beyond the seeds: by Welch's test at 5%, corrected for the number of rules "
            "(Benjamini and Hochberg). order: the rank correlation of the worst cases",
        ],
    )  # fmt: skip


def _best(panel: ArenaPanel, rules: Sequence[str]) -> set[str]:
    """The rules that cannot be told from the best; none if too few were run."""
    known = panel.run_enough(rules)
    return panel.most_run(panel.best(known)) if len(known) >= ENOUGH else set()


def _score(panel: ArenaPanel, rule: str) -> str:
    if rule not in panel.standings or not panel.is_whole(rule):
        return ""
    standing = panel.standings[rule]
    return number(standing.score.value) + bounds(panel.interval(standing))


def _change(first: ArenaPanel, second: ArenaPanel) -> str:
    """Which rules score higher or lower in the second panel beyond the seeds, and how alike the orders are."""
    before, after = (panel.scores(contenders(panel)) for panel in (first, second))
    shared = [rule for rule in before if rule in after]
    chances = {rule: chance_if_equal(before[rule], after[rule]) for rule in shared}
    moved = rejected(chances, max(first.level, second.level))
    up = [rule for rule in shared if rule in moved and after[rule].value > before[rule].value]
    down = [rule for rule in shared if rule in moved and rule not in up]
    order = correlation(first, second)
    return f"of {len(shared)} rules, beyond the seeds higher {listed(up)}; lower {listed(down)}" + (
        f"; order {order:.2f}" if order is not None else ""
    )


def orders(base: Arena, others: Sequence[Arena]) -> Sheet:
    """How alike the orders of the rules are in the panels of other tracks and in those of a track."""
    panels = list(base.by_list.values())
    rows = []
    for arena in others:
        for panel in arena.by_list.values():
            found = [correlation(panel, of) for of in panels]
            rows.append(cells([arena.track.name, arena.titled(panel), str(len(contenders(panel))),
                               *("" if each is None else f"{each:.2f}" for each in found)]))  # fmt: skip
    return Sheet(
        above=[f"The order of the rules in other tracks and in the panels of {base.track.name}"],
        heading=["track", "panel", "rules", *(f"{of.partition} {base.share(of.number)}" for of in panels)],
        rows=rows,
        labels=2,
        footnotes=["rank correlation of the worst cases of the rules that both panels have; 1: the same order"],
    )
