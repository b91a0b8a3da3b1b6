"""The arena as tables: which pairs of rules each panel tells apart, an overview of all partitions, a table for each
panel, flags."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena import conditions, error_rates, pairs, planning
from robustfl_bench.lab.arena.conditions import LOWEST
from robustfl_bench.lab.arena.order import NEAR, WORST, likeness, stability, strongest
from robustfl_bench.lab.arena.panels import HALF, SERVER_DATA, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import BACKDOOR, HONEST, SERVER, Track
from robustfl_bench.lab.arena.words import block, bounds, cells, listed, number
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.read.tables.sheets import Printed, Sheet, Todo
from robustfl_bench.runner.config import options

if TYPE_CHECKING:
    import pandas as pd

_TOP = 15  # rules whose order between seeds is also compared
_FEW = 10  # seeds below which intervals are called wide
DIVISIONS = {"rules without server data": False, f"rules that read {SERVER_DATA}": True}
"""Names of the divisions, and whether the server's samples are read in them."""
_PANEL = ("rule", "group", "score", "worst case", "by", "no attack", "max recall drop", "seeds")
_BOLD = (
    f"cannot be told from the best rule of its division, and may reach {HALF:g}; of such rules, those with the most "
    "seeds alone"
)
SCORE_MEANING = (
    f"score: {LOWEST}. It is (worst case - chance) / (honest clients' mean - chance) in percent, at least 0, with its "
    "95% interval: Student's over seeds, widened where a bootstrap finds them skewed. worst case: the least over all "
    "attacks that were run against the rule of the means over seeds, test accuracy [%]. A model that diverged counts "
    "as 0",
    f"{HONEST}: the plain mean of the honest clients alone, what no attacker could stop. {SERVER}: the server's own "
    "samples alone, to which no attack comes",
    "cannot be told from the best: Welch tests with the errors of the intervals, the bias of a least of few seeds "
    "taken off, which are to leave out a rule as good as the best with a chance of at most 5%, whichever rule came "
    "first (Bonferroni in steps), for all looks at 5, 10 and 20 seeds together where a track has them; rules whose "
    f"whole interval is below {HALF:g} are left out too",
)
"""What scores are, and when rules cannot be told apart."""

UNMET = "not searched"
"""The group of a rule that the strongest attack did not meet."""

_PANEL_MEANING = (
    "group: in each division, 1 is the best rule and those that cannot be told from it, 2 the best of the others and "
    "those that cannot be told from it, and so on",
    "by: the attack of the worst case. max recall drop [points]: the largest under any attack, against the plain mean "
    "without attack. backdoor [%]: its success",
)
_OVERVIEW_MEANING = (
    "columns of partitions: score. Rules are ordered by their mean over the partitions. needs: f, server data, ...; "
    "cost: Gram matrices and sorts of a round, counted; runs: over partitions, attacks and seeds",
)


def sheets(arena: Arena) -> list[Sheet]:
    """The pairs that each panel tells apart; for each number of attackers a table of all partitions, then a table for
    each of its panels; then the flags."""
    pages = [pairs.sheet([arena])]
    for of in arena.settled:
        pages.append(_overview(arena, of))
        pages += [_panel(arena, panel) for panel in arena.row(of)]
    used = arena.table.iloc[[run.row for run in arena.runs]]
    pages[0] = replace(pages[0], above=[*pages[0].above, *_doubled(arena), *_processors(used), *origins(used)])
    return [*pages, conditions.doubts(arena.settled, arena.needs)]


def divided(arena: Arena, panel: ArenaPanel) -> Iterator[tuple[str, list[str], set[str]]]:
    """The divisions: name, rules in their order, and those that cannot be told from the best. Server alone is no rule
    of a division."""
    for name, reads in DIVISIONS.items():
        rules = [rule for rule in panel.standings if _is_in(arena, rule, reads)]
        yield name, rules, set(panel.best(rules))


def _is_in(arena: Arena, rule: str, reads: bool) -> bool:
    return rule != SERVER and (SERVER_DATA in arena.needs.of(rule)) == reads


def by_score(row: Sequence[ArenaPanel]) -> list[str]:
    """The rules by their mean score over some panels: first those that were run under all attacks in all of them."""
    held = {rule: [panel for panel in row if rule in panel.standings] for panel in row for rule in panel.standings}
    whole = {rule: len(of) == len(row) and all(panel.is_whole(rule) for panel in of) for rule, of in held.items()}
    means = {rule: fmean(panel.standings[rule].score.value for panel in of) for rule, of in held.items()}
    known = {rule: -math.inf if math.isnan(mean) else mean for rule, mean in means.items()}
    return sorted(known, key=lambda rule: (not whole[rule], -known[rule]))


def _overview(arena: Arena, of: int) -> Sheet:
    """The scores of the rules in all partitions."""
    row = arena.row(of)
    heading = ("rule", *(panel.partition for panel in row), "needs", "cost", "runs")
    tops = {panel.partition: {rule for _, _, top in divided(arena, panel) for rule in panel.most_run(top)}
            for panel in row if panel.compares}  # fmt: skip
    best = {rule: {partition for partition, top in tops.items() if rule in top}
            for panel in row for rule in panel.standings}  # fmt: skip

    def line(rule: str) -> list[Printed]:
        held = [panel.standings.get(rule) for panel in row]
        scores = [Printed(number(standing.score.value) if standing else "", best=panel.partition in best[rule])
                  for standing, panel in zip(held, row, strict=True)]  # fmt: skip
        count = sum(standing.cells for standing in held if standing)
        needs = (", ".join(arena.needs.of(rule)), arena.needs.cost(rule), str(count))
        return [Printed(rule), *scores, *cells(needs)]

    rows = [cells([HONEST, *("100" if not math.isnan(panel.honest) else "" for panel in row), *[""] * 3])]
    if SERVER in best:
        rows.append([replace(cell, best=False) for cell in line(SERVER)])
    for name, reads in DIVISIONS.items():
        rules = [rule for rule in by_score(row) if _is_in(arena, rule, reads)]
        rows += [block(name, len(heading)), *map(line, rules)] if rules else []
    infeasible = sorted({rule for panel in row for rule in panel.infeasible} - best.keys())
    rows += [cells([rule, *["cannot run"] * len(row), *[""] * 2, "0"]) for rule in infeasible]
    above = [f"{arena.track.title(of)}, scores in all partitions", *_agreement(arena, of)]
    footnotes = [*SCORE_MEANING, *_OVERVIEW_MEANING]
    return Sheet(above, heading, rows, bold=_BOLD * bool(tops), footnotes=footnotes, todos=_todos(arena, of))


def _agreement(arena: Arena, of: int) -> list[str]:
    """What seeds and ``worst`` say, in words."""
    row, lines = arena.row(of), []
    whole, top = (None, None) if arena.track.is_raced else (stability(row), stability(row, _TOP))
    if whole is not None and top is not None:
        worst = [standing.worst for panel in row for standing in panel.standings.values() if standing.accuracies]
        lines.append(
            f"seeds: Spearman's rank correlation of the order by one seed with that by the others is {whole[0]:.2f} "
            f"over {whole[1]} rules, whose worst cases range from {min(worst):.0f} to {max(worst):.0f}%, and "
            f"{top[0]:.2f} over the {top[1]} best ({whole[2]} seeds): seeds agree on which rules fail, "
            f"{'and' if top[0] > 0.9 else 'less'} on which of the best is best"
        )
    if (harm := strongest(arena.settled[of])) is not None:
        lines.append(
            f"{WORST}: no single attack does more harm in {harm[0]} of {harm[2]} cases (rule, partition and seed), "
            f"and none by more than {NEAR} points in {harm[1]}"
        )
    return lines


def _processors(used: pd.DataFrame) -> list[str]:
    """On which kinds of processor the runs were made."""
    kinds = sorted(set(used["processor"].dropna().astype(str)))
    if len(kinds) != 1:
        return [f"processors: {', '.join(kinds)}"] if kinds else []
    return [f"processors: one kind, {kinds[0]}; these runs do not show how much a cell varies between processors"]


def _doubled(arena: Arena) -> list[str]:
    """The agreement of the rules' order with that at twice the size, if such runs exist."""
    if not options.exists("experiment", double := f"{arena.track.experiment}_double"):
        return []
    twice = Track(double.partition("/")[2])
    others = twice.runs(arena.table[arena.table["num_clients"] == twice.clients])
    alike = likeness(arena.settled.get(others[0].num_byzantine // 2, []), others) if others else None
    if alike is None:
        return []
    return [f"at twice the size, the rank correlation with the same cells here is {alike[0]:.2f} ({alike[1]} rules)"]


def _panel(arena: Arena, panel: ArenaPanel) -> Sheet:
    """The rules of a panel."""
    has_backdoor = BACKDOOR in arena.track.swept["attack"]

    def line(rule: str, top: set[str], group: str) -> list[Printed]:
        standing = panel.standings[rule]
        return [
            *cells([rule, group]),
            Printed(number(standing.score.value) + bounds(panel.interval(standing)), best=rule in top),
            *cells([
                number(standing.worst), standing.attack if rule != SERVER else "", number(standing.clean),
                number(standing.recall_drop), str(standing.score.n), *[number(standing.backdoor)] * has_backdoor,
            ]),
        ]  # fmt: skip

    heading = [*_PANEL, *["backdoor"] * has_backdoor]
    empty = [""] * (len(heading) - 4)
    rows = [cells([HONEST, "", "100", number(panel.honest), *empty])] if not math.isnan(panel.honest) else []
    rows += [line(SERVER, set(), "")] if panel.server else []
    for name, rules, top in divided(arena, panel):
        groups = panel.groups(rules) if panel.compares else ()
        place = dict.fromkeys(panel.unmet, UNMET)
        place |= {rule: str(count) for count, group in enumerate(groups, 1) for rule in group}
        bold = panel.most_run(top)
        rows += [block(name, len(heading)), *(line(rule, bold, place.get(rule, "")) for rule in rules)] if rules else []
    partial = [rule for rule in panel.standings if not panel.is_whole(rule)]
    above = [
        f"{arena.track.title(panel.number)}, {panel.partition}",
        f"chance is {panel.chance:.1f}%; {_seeds(arena, panel)}",
        *filter(None, [error_rates.words(arena, panel)]),
        *_equal(panel),
        *([f"not under all attacks, and below the others: {', '.join(partial)}"] if partial else []),
    ]
    return Sheet(
        above,
        heading,
        rows,
        bold=_BOLD * panel.compares,
        footnotes=[*_PANEL_MEANING, *[planning.MEANING] * bool(arena.searched)],
    )


def _seeds(arena: Arena, panel: ArenaPanel) -> str:
    """The number of seeds, and what it makes of the intervals."""
    count = pairs.seeds(panel, pairs.contenders(panel))
    if panel.seeds == 1:
        return "1 seed, so there are no intervals, and rules are not compared"
    few = ", so intervals are wide" * (panel.seeds < _FEW and not arena.track.is_raced)
    return f"{count} seeds{few}"


def _equal(panel: ArenaPanel) -> list[str]:
    """Which of the best rules are equal."""
    equal = pairs.pairs(panel).equal
    return [f"equal within {pairs.MARGIN:g} points: {listed(sorted(map(' = '.join, equal)))}"] if equal else []


def _todos(arena: Arena, of: int) -> list[Todo]:
    """The rules whose cells are missing, and the commands that run them."""
    partitions = arena.track.swept["partition"]
    held = {panel.partition: panel.standings for panel in arena.row(of)}
    rules = [rule for rule in dict.fromkeys(rule for standings in held.values() for rule in standings)
             if rule != SERVER or not arena.track.draws]  # fmt: skip
    by_options: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for rule in rules:
        counts = [held[name][rule].cells if rule in held.get(name, {}) else 0 for name in partitions]
        if min(counts) * len(partitions) < arena.track.cells:
            name, others = arena.needs.asked_as(rule)
            by_options[others][rule] = name
    alone = max((panel.server.score.n for panel in arena.row(of) if panel.server), default=0)
    draws = Todo("missing", f"{arena.track.draws - alone} of {arena.track.draws} draws of the server's own samples",
                 f"robustfl-bench -m +experiment={arena.track.experiment}_server")  # fmt: skip
    return [*[draws] * (alone < arena.track.draws)] + [
        Todo("missing", f"runs of {', '.join(names)}", arena.track.command(names.values(), others))
        for others, names in by_options.items()
    ]  # fmt: skip
