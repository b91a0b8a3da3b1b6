"""What the panels of a raced track show, in sentences whose numbers are computed from its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations

from robustfl_bench.arena.findings import clean_accuracy, heterogeneity, idle
from robustfl_bench.arena.page import DIVISIONS, divided
from robustfl_bench.arena.pairs import TOP, contenders, pairs
from robustfl_bench.arena.panels import HALF, SERVER_DATA, Arena, ArenaPanel
from robustfl_bench.arena.race import ENOUGH
from robustfl_bench.arena.views.planned import answer
from robustfl_bench.arena.words import bounds, listed
from robustfl_bench.runs.records import NoRuns
from robustfl_bench.runs.statistics import chance_if_equal, rank_correlation, rejected

_SHARED = 3  # rules from which on an order is compared with another


def conclusions(arena: Arena, earlier: Arena) -> list[str]:
    """The conclusions, the most important first, each left out where the runs do not show it; ``earlier`` is an older
    track with panels of the same names."""
    lines = [*better_than_the_server(arena), half(arena), plans(arena), heterogeneity(arena), worst_attacks(arena)]
    lines += [
        told_apart(arena, earlier),
        order(arena),
        order_against(arena, earlier),
        clean_accuracy(arena),
        idle(arena),
    ]
    return [line for line in lines if line]


def surely(panel: ArenaPanel, rules: Sequence[str]) -> tuple[list[str], list[str]]:
    """The rules that are surely better than the server's own samples alone, and those that are surely worse: Welch's
    test, corrected for the number of rules."""
    if panel.server is None:
        return [], []
    alone, scores = panel.server.score, panel.scores(rules)
    different = rejected({rule: chance_if_equal(score, alone) for rule, score in scores.items()}, panel.level)
    better = [rule for rule in rules if rule in different and scores[rule].value > alone.value]
    return better, [rule for rule in rules if rule in different and rule not in better]


def better_than_the_server(arena: Arena) -> list[str]:
    """For each number of attackers, which rules are surely better than the server alone."""
    lines = []
    for number in arena.settled:
        row = [panel for panel in arena.row(number) if panel.server]
        parts = []
        for name, reads in DIVISIONS.items():
            words = []
            for panel in row:
                rules = [rule for rule in contenders(panel) if (SERVER_DATA in arena.needs.of(rule)) == reads]
                better, worse = surely(panel, rules)
                words.append(f"{panel.partition} {listed(better, 6)} (surely worse: {len(worse)} of {len(rules)})")
            parts.append(f"{name}: {'; '.join(words)}")
        if row and row[0].server:
            score = f"{row[0].server.score.value:.0f}{bounds(row[0].interval(row[0].server))}"
            lines.append(
                f"With {arena.share(number)} attackers, these are surely better than the server's own samples alone, "
                f"which score {score} in {row[0].partition}. {'. '.join(map(_sentence, parts))}."
            )
    return lines


def half(arena: Arena) -> str:
    """How many rules keep half of what honest clients reach, and the best of each division."""
    parts = []
    for panel in arena.panels.values():
        keep = sum(panel.standings[rule].score.value >= HALF for rule in contenders(panel))
        best = [f"{rules[0]} {panel.standings[rules[0]].score.value:.0f}"
                for _, rules, _ in divided(arena, panel) if rules]  # fmt: skip
        parts.append(f"{arena.titled(panel)}, {keep} of {len(contenders(panel))} ({' and '.join(best)})")
    return (
        f"So many rules keep at least {HALF:g}% of what the honest clients alone reach, whatever the attack (the best "
        f"without and with server data): {'; '.join(parts)}."
    )


def plans(arena: Arena) -> str:
    """What attackers who plan do beyond the list."""
    with suppress(NoRuns):
        return f"{_sentence(answer(arena))}."
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
    apart, settled, alone = _shares(arena)
    was_apart, was_settled, was_alone = _shares(earlier)
    name = earlier.track.name
    return (
        f"Of the pairs of the best {TOP} rules of a panel, {apart} can be told apart ({name}: {was_apart}), and "
        f"{settled} are told apart or equal ({name}: {was_settled}), {_reached(arena)}. A test of each pair alone, "
        f"without correction, would tell {alone} apart ({name}: {was_alone})."
    )


def _reached(arena: Arena) -> str:
    """In how many panels enough pairs are told apart or equal."""
    shares = [known.share_settled for panel in arena.panels.values() if (known := pairs(panel)).all]
    return f"at least {100 * ENOUGH:.0f}% in {sum(share >= ENOUGH for share in shares)} of {len(shares)} panels"


def _shares(arena: Arena) -> list[str]:
    """The shares of pairs told apart, of those told apart or equal, and of those told apart by a test of each alone."""
    found = [known for panel in arena.panels.values() if (known := pairs(panel)).all]
    shares = ([100 * known.share_apart for known in found], [100 * known.share_settled for known in found],
              [100 * known.alone / len(known.all) for known in found])  # fmt: skip
    return [f"{_span(sorted(of))}%" if of else "none" for of in shares]


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
    parts = []
    for place, panel in arena.by_list.items():
        other = earlier.by_list.get(place)
        if other is not None and (found := correlation(panel, other)) is not None:
            parts.append(f"{arena.titled(panel)} {found:.2f}")
    if not parts:
        return ""
    return (
        f"The order of the rules and that of the same rules in the same panel of {earlier.track.name} have a rank "
        f"correlation of: {'; '.join(parts)}."
    )


def correlation(first: ArenaPanel, second: ArenaPanel) -> float | None:
    """The rank correlation of the worst cases of the rules that both panels have; None for too few."""
    shared = [rule for rule in contenders(first) if rule in contenders(second)]
    if len(shared) < _SHARED:
        return None
    return rank_correlation(*([of.standings[rule].worst for rule in shared] for of in (first, second)))


def _span(ascending: Sequence[float], digits: int = 0) -> str:
    low, high = (f"{number:.{digits}f}" for number in (ascending[0], ascending[-1]))
    return low if low == high else f"{low} to {high}"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]
