"""The arena as tables: which pairs of rules each panel tells apart, an overview of all partitions, a table for each
panel, flags."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from robustfl_bench.lab.arena import conditions, order
from robustfl_bench.lab.arena.additions import SEARCHING
from robustfl_bench.lab.arena.order import NEAR, WORST, likeness, stability, strongest
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import BACKDOOR, HONEST, SERVER, Track
from robustfl_bench.lab.arena.words import SERVER_DATA, number, said, tabled
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.read.tables.sheets import Printed, Sheet, Todo
from robustfl_bench.runner.config import options

if TYPE_CHECKING:
    import pandas as pd

_TOP = 15  # rules whose order between seeds is also compared
DIVISIONS = {"rules without server data": False, f"rules that read {SERVER_DATA}": True}
"""Names of the divisions, and whether the server's samples are read in them."""

UNMET = "not searched"
"""The group of a rule that the strongest attack did not meet."""


def sheets(arena: Arena) -> list[Sheet]:
    """The pairs that each panel tells apart; for each number of attackers a table of all partitions, then a table for
    each of its panels; then the flags."""
    pages = [order.sheet([arena])]
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
    tops = {panel.partition: {rule for _, _, top in divided(arena, panel) for rule in panel.comparable_best(top)}
            for panel in row if panel.compares}  # fmt: skip

    def line(rule: str) -> dict[str, Any]:
        values = [panel.standings[rule].score.value if rule in panel.standings else math.nan for panel in row]
        scores = [Printed(number(value), best=rule != SERVER and rule in tops.get(panel.partition, ()))
                  for value, panel in zip(values, row, strict=True)]  # fmt: skip
        count = sum(panel.standings[rule].cells for panel in row if rule in panel.standings)
        return {"rule": rule, "scores": scores, "needs": ", ".join(arena.needs.of(rule)),
                "cost": arena.needs.cost(rule), "runs": count}  # fmt: skip

    held = {rule for panel in row for rule in panel.standings}
    empty = dict.fromkeys(("needs", "cost", "runs"))
    honest = ["" if math.isnan(panel.honest) else "100" for panel in row]
    records: list[Any] = [{"rule": HONEST, "scores": honest, **empty}, *map(line, {SERVER} & held)]
    for name, reads in DIVISIONS.items():
        rules = [rule for rule in by_score(row) if _is_in(arena, rule, reads)]
        records += [name, *map(line, rules)] if rules else []
    infeasible = sorted({rule for panel in row for rule in panel.infeasible} - held)
    records += [{"rule": rule, "scores": ["cannot run"] * len(row), **empty, "runs": 0} for rule in infeasible]
    return tabled("tables.overview", records, arena=arena, number=of, row=row, tops=tops,
                  agreement=_agreement(arena, of), todos=_todos(arena, of))  # fmt: skip


def _agreement(arena: Arena, of: int) -> list[str]:
    """What seeds and ``worst`` say, in words."""
    row, lines = arena.row(of), []
    whole, top = (None, None) if arena.track.is_raced else (stability(row), stability(row, _TOP))
    if whole is not None and top is not None:
        worst = [standing.worst for panel in row for standing in panel.standings.values() if standing.accuracies]
        lines.append(said("tables.seeds_agree", whole=whole, top=top, worst=worst))
    if (harm := strongest(arena.settled[of])) is not None:
        lines.append(said("tables.worst_harms", WORST=WORST, harm=harm, NEAR=NEAR))
    return lines


def _processors(used: pd.DataFrame) -> list[str]:
    """On which kinds of processor the runs were made."""
    kinds = sorted(set(used["processor"].dropna().astype(str)))
    return [said("tables.processors", kinds=kinds)] if kinds else []


def _doubled(arena: Arena) -> list[str]:
    """The agreement of the rules' order with that at twice the size, if such runs exist."""
    if not options.exists("experiment", double := f"{arena.track.experiment}_double"):
        return []
    twice = Track(double.partition("/")[2])
    others = twice.runs(arena.table[arena.table["num_clients"] == twice.clients])
    alike = likeness(arena.settled.get(others[0].num_byzantine // 2, []), others) if others else None
    return [] if alike is None else [said("tables.doubled", alike=alike)]


def _panel(arena: Arena, panel: ArenaPanel) -> Sheet:
    """The rules of a panel."""
    records: list[Any] = [] if math.isnan(panel.honest) else [{"rule": HONEST, "honest": panel.honest}]
    records += [{"rule": SERVER, "of": panel.server}] if panel.server else []
    for name, rules, top in divided(arena, panel):
        groups = panel.groups(rules) if panel.compares else ()
        place = dict.fromkeys(panel.unmet, UNMET)
        place |= {rule: str(count) for count, group in enumerate(groups, 1) for rule in group}
        bold = panel.comparable_best(top)
        records += [name] * bool(rules)
        records += [{"rule": rule, "of": panel.standings[rule], "group": place.get(rule), "is_best": rule in bold}
                    for rule in rules]  # fmt: skip
    return tabled(
        "tables.panel",
        records,
        **{"of": None, "honest": None, "group": None, "is_best": False},
        arena=arena,
        panel=panel,
        seeds=order.seeds(panel, order.contenders(panel)),
        errors=order.errors(arena, panel),
        equal=sorted(map(" = ".join, order.pairs(panel).equal)),
        partial=[rule for rule in panel.standings if not panel.is_whole(rule)],
        backdoor=["backdoor"] if BACKDOOR in arena.track.swept["attack"] else [],
        MARGIN=order.MARGIN,
        SEARCHING=SEARCHING,
    )


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
