"""The arena as tables: an overview of all partitions, then a table for each panel, then flags."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from robustfl_bench.arena import flags
from robustfl_bench.arena.order import NEAR, WORST, likeness, rank, stability, strongest
from robustfl_bench.arena.panels import HALF, SERVER_DATA, Arena, ArenaPanel
from robustfl_bench.arena.track import HONEST, SERVER, Track
from robustfl_bench.arena.words import block, bounds, cells, number
from robustfl_bench.config import options
from robustfl_bench.runs.origins import origins
from robustfl_bench.tables.sheets import Printed, Sheet, Todo

if TYPE_CHECKING:
    import pandas as pd

_TOP = 15  # rules whose order between seeds is also compared
DIVISIONS = {"rules without server data": False, f"rules that read {SERVER_DATA}": True}
"""Names of the divisions, and whether the server's samples are read in them."""
_PANEL = ("rule", "score", "worst case", "by", "no attack", "max recall drop", "backdoor")
_BOLD = "cannot be told from the best rule of its division"
SCORE_MEANING = (
    "score: (worst case - chance) / (honest clients' mean - chance) in percent, at least 0, with its 95% interval: a "
    "bootstrap over seeds, widened by Student's factor for their number. worst case: the least over attacks of the "
    "means over seeds, test accuracy [%]. A model that diverged counts as 0",
    f"{HONEST}: the plain mean of the honest clients alone, what no attacker could stop. {SERVER}: the server's own "
    "samples alone, to which no attack comes",
    "cannot be told from the best: one-sided Welch tests at 5% with the bootstrap's errors, corrected for the number "
    f"of rules by Benjamini and Hochberg's procedure; rules whose whole interval is below {HALF:g} are left out",
)
"""What scores are, and when rules cannot be told apart."""

_PANEL_MEANING = (
    "by: the attack of the worst case. max recall drop [points]: the largest under any attack, against the plain mean "
    "without attack. backdoor [%]: its success",
)
_OVERVIEW_MEANING = (
    "columns of partitions: score. rank: mean rank over partitions by worst case, 1 is best; needs: f, server data, "
    "...; cost: Gram matrices and sorts of a round, counted; cells: partitions, attacks and seeds that were run",
)


def sheets(arena: Arena) -> list[Sheet]:
    """For each number of attackers a table of all partitions, then a table for each of its panels; then the flags."""
    pages = []
    for of in arena.settled:
        pages.append(_overview(arena, of))
        pages += [_panel(arena, panel) for panel in arena.row(of)]
    used = arena.table.iloc[[run.row for run in arena.runs]]
    pages[0] = replace(pages[0], above=[*pages[0].above, *_doubled(arena), *_processors(used), *origins(used)])
    return [*pages, flags.sheet(arena.settled, arena.needs)]


def divided(arena: Arena, panel: ArenaPanel) -> Iterator[tuple[str, list[str], set[str]]]:
    """The divisions: name, rules in their order, and those that cannot be told from the best. Server alone is no rule
    of a division."""
    for name, reads in DIVISIONS.items():
        rules = [rule for rule in panel.standings if _is_in(arena, rule, reads)]
        yield name, rules, set(panel.best(rules))


def _is_in(arena: Arena, rule: str, reads: bool) -> bool:
    return rule != SERVER and (SERVER_DATA in arena.needs.of(rule)) == reads


def by_rank(row: Sequence[ArenaPanel]) -> list[str]:
    """The rules by their mean rank over partitions, those without one by their mean worst case after them."""
    place = ranked.mean if (ranked := rank(row)) is not None else {}
    means = {rule: fmean(panel.standings[rule].worst for panel in row if rule in panel.standings)
             for panel in row for rule in panel.standings}  # fmt: skip
    known = {rule: -math.inf if math.isnan(mean) else mean for rule, mean in means.items()}
    return sorted(known, key=lambda rule: (place.get(rule, math.inf), -known[rule]))


def _overview(arena: Arena, of: int) -> Sheet:
    """The scores of the rules in all partitions."""
    row = arena.row(of)
    ranked = rank(row)
    place = ranked.mean if ranked is not None else {}
    heading = ("rule", *(panel.partition for panel in row), "rank", "needs", "cost", "cells")
    best = {rule: {panel.partition for panel in row for _, _, top in divided(arena, panel) if rule in top}
            for panel in row for rule in panel.standings}  # fmt: skip

    def line(rule: str) -> list[Printed]:
        held = [panel.standings.get(rule) for panel in row]
        scores = [Printed(number(standing.score.value) if standing else "", best=panel.partition in best[rule])
                  for standing, panel in zip(held, row, strict=True)]  # fmt: skip
        count = sum(standing.cells for standing in held if standing)
        return [Printed(rule), *scores, *cells([
            number(place.get(rule, math.nan)), ", ".join(arena.needs.of(rule)), arena.needs.cost(rule),
            f"{count}/{arena.track.cells}",
        ])]  # fmt: skip

    rows = [cells([HONEST, *("100" if not math.isnan(panel.honest) else "" for panel in row), *[""] * 4])]
    if SERVER in best:
        rows.append([replace(cell, best=False) for cell in line(SERVER)])
    for name, reads in DIVISIONS.items():
        rules = [rule for rule in by_rank(row) if _is_in(arena, rule, reads)]
        rows += [block(name, len(heading)), *map(line, rules)] if rules else []
    infeasible = sorted({rule for panel in row for rule in panel.infeasible} - best.keys())
    rows += [cells([rule, *["cannot run"] * len(row), *[""] * 3, f"0/{arena.track.cells}"]) for rule in infeasible]
    above = [f"{arena.track.title(of)}, scores in all partitions", *_agreement(arena, of)]
    footnotes = [*SCORE_MEANING, *_OVERVIEW_MEANING]
    return Sheet(above, heading, rows, bold=_BOLD, footnotes=footnotes, todos=_todos(arena, of))


def _agreement(arena: Arena, of: int) -> list[str]:
    """What ranks, seeds and ``worst`` say, in words."""
    row, lines = arena.row(of), []
    if (ranked := rank(row)) is not None:
        lines.append(
            f"ranks: {len(ranked.mean)} rules over {ranked.conditions} partitions; two mean ranks that differ by less "
            f"than {ranked.critical:.1f} cannot be told apart (Nemenyi, 95%)"
        )
    whole, top = stability(row), stability(row, _TOP)
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

    def line(rule: str, top: set[str]) -> list[Printed]:
        standing = panel.standings[rule]
        return [
            Printed(rule),
            Printed(number(standing.score.value) + bounds(panel.interval(standing)), best=rule in top),
            *cells([
                number(standing.worst), standing.attack if rule != SERVER else "", number(standing.clean),
                number(standing.recall_drop), number(standing.backdoor),
            ]),
        ]  # fmt: skip

    rows = [cells([HONEST, "100", number(panel.honest), *[""] * 4])] if not math.isnan(panel.honest) else []
    rows += [line(SERVER, set())] if panel.server else []
    for name, rules, top in divided(arena, panel):
        rows += [block(name, len(_PANEL)), *(line(rule, top) for rule in rules)] if rules else []
    partial = [rule for rule in panel.standings if not panel.is_whole(rule)]
    above = [
        f"{arena.track.title(panel.number)}, {panel.partition}",
        f"chance is {panel.chance:.1f}%; {panel.seeds} seed{'s' * (panel.seeds != 1)}"
        + (", so intervals are wide" if 1 < panel.seeds < 10 else ", so there are no intervals" * (panel.seeds == 1)),
        *([f"not under all attacks, and below the others: {', '.join(partial)}"] if partial else []),
    ]
    return Sheet(above, _PANEL, rows, bold=_BOLD, footnotes=_PANEL_MEANING)


def _todos(arena: Arena, of: int) -> list[Todo]:
    """The rules whose cells are missing, and the commands that run them."""
    count: dict[str, int] = defaultdict(int)
    for panel in arena.row(of):
        for rule, standing in panel.standings.items():
            count[rule] += standing.cells
    by_options: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for rule in (rule for rule, run in count.items() if run < arena.track.cells):
        name, others = arena.needs.asked_as(rule)
        by_options[others][rule] = name
    return [
        Todo("missing", f"runs of {', '.join(names)}", f"robustfl-bench -m +experiment={arena.track.experiment} "
             + " ".join([f"aggregator={','.join(dict.fromkeys(names.values()))}", *others]))
        for others, names in by_options.items()
    ]  # fmt: skip
