"""What the panels of a raced track show, in sentences whose numbers are computed from its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations

from robustfl_bench.lab.arena.conditions import LOWEST, conditioned
from robustfl_bench.lab.arena.findings import NEAR, clean_accuracy, heterogeneity, idle, near
from robustfl_bench.lab.arena.pairs import TOP, beside_server, contenders, pairs
from robustfl_bench.lab.arena.panels import HALF, SERVER_DATA, Arena, ArenaPanel
from robustfl_bench.lab.arena.race import ENOUGH
from robustfl_bench.lab.arena.views import books
from robustfl_bench.lab.arena.views.planned import answer
from robustfl_bench.lab.arena.words import cells, listed, sentence, span
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet

_SHARED = 3  # rules from which on an order is compared with another


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
    for number in arena.settled:
        row = sorted(arena.row(number), key=_keeping)
        ends = span(*(f"{_keeping(panel)} ({panel.partition})" for panel in (row[0], row[-1])))
        parts.append(f"{ends} of {len(contenders(row[0]))} with {arena.share(number)} attackers")
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
    return f"in {sum(share >= ENOUGH for share in shares)} of {len(shares)} panels at least {100 * ENOUGH:.0f}%"


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
    shared = [rule for rule in contenders(first) if rule in contenders(second)]
    if len(shared) < _SHARED:
        return None
    return rank_correlation(*([of.standings[rule].worst for rule in shared] for of in (first, second)))


def _span(ascending: Sequence[float], digits: int = 0) -> str:
    return span(*(f"{number:.{digits}f}" for number in (ascending[0], ascending[-1])))
