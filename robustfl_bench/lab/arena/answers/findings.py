"""What an arena and the panels of a raced track show, in sentences whose numbers are computed from its runs; and its
protocol as a table, and tracks beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from robustfl_bench.base.grouping import grouped
from robustfl_bench.lab.arena import page
from robustfl_bench.lab.arena.conditions import conditioned, remarks
from robustfl_bench.lab.arena.order import BELOW, TOP, UNSHOWN, beside_server, contenders, mark, pairs
from robustfl_bench.lab.arena.panels import ENOUGH, REFERENCE, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import HONEST, NONE, SERVER, ArenaRun
from robustfl_bench.lab.arena.views import VIEWS, ArenaView, books
from robustfl_bench.lab.arena.views.attacks import answer
from robustfl_bench.lab.arena.views.rounds import SETTLED
from robustfl_bench.lab.arena.words import HALF, SERVER_DATA, bounds, ends, filled, number, said, sentence, span, tabled
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import chance_if_equal, rank_correlation, rejected
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.runner.config import compose, options

NEAR = 5
"""Points below the honest clients' mean that count as little."""

_IID = "iid"
_LITTLE = 0.4  # a rank correlation that says little
_MANY = 10  # rules, for a rank correlation
_ALIKE = 0.5  # share of a rule's runs without attack that equal the plain mean's, above which it is named


def findings(arena: Arena) -> list[str]:
    """The findings, the most important first; each is left out where the runs do not show it."""
    lines = [heterogeneity(arena), clean_accuracy(arena)]
    lines += [helping(arena), chosen_rates(arena), idle(arena)]
    return [line for line in lines if line]


def answered(arena: Arena) -> dict[ArenaView, list[Sheet]]:
    """The tables of each view that the runs can answer; the second line above the first is its sentence."""
    known = {}
    for view in VIEWS.values():
        with suppress(NoRuns):
            known[view] = view.sheets(arena)
    return known


def _rules(panel: ArenaPanel) -> list[str]:
    return [rule for rule in panel.standings if rule != SERVER and panel.is_whole(rule)]


def heterogeneity(arena: Arena) -> str:
    """How many rules stay near the honest clients' mean in each partition, and, unless ``conclusions`` tests it, above
    the server's samples alone."""
    counts = []
    for attackers in arena.settled:
        row = arena.row(attackers)
        above = _by_partition(row, _above_server) if all(of.server for of in row) and not arena.track.is_raced else []
        held = _by_partition(row, near)
        counts.append({"number": attackers, "rules": len(_rules(row[0])), "near": held, "above": above})
    return said("findings.heterogeneity", arena=arena, counts=counts, NEAR=NEAR, is_it=_is_heterogeneity(arena))


def _by_partition(row: list[ArenaPanel], count: Callable[[ArenaPanel], int]) -> list[tuple[int, str]]:
    """A count in each partition, the largest first."""
    return sorted(((count(panel), panel.partition) for panel in row), key=lambda item: -item[0])


def near(panel: ArenaPanel) -> int:
    """How many rules end within NEAR of the honest clients' mean under every attack."""
    return sum(panel.standings[rule].worst > panel.honest - NEAR for rule in _rules(panel))


def _is_heterogeneity(arena: Arena) -> bool:
    """Whether, with the fewest attackers, more rules hold where all clients have the same data than anywhere else."""
    counts = {panel.partition: near(panel) for panel in arena.row(min(arena.settled))}
    if not all(panel.compares for panel in arena.row(min(arena.settled))):
        return False
    return _IID in counts and all(counts[_IID] > count for name, count in counts.items() if name != _IID)


def _above_server(panel: ArenaPanel) -> int:
    least = panel.server.worst if panel.server else 0.0
    return sum(panel.standings[rule].worst > least for rule in _rules(panel))


def best_rules(arena: Arena) -> Sheet:
    """The best rules of each division in each panel, as a table."""
    records = [{"panel": panel, "groups": [_group(panel, rules, top) for _, rules, top in page.divided(arena, panel)]}
               for panel in arena.panels.values()]  # fmt: skip
    table = tabled("findings.best_rules", records, arena=arena, DIVISIONS=page.DIVISIONS, BELOW=BELOW, UNSHOWN=UNSHOWN)
    return conditioned(table, arena)


def _group(panel: ArenaPanel, rules: Sequence[str], top: Collection[str]) -> str:
    """The best of the rules, and those that cannot be told from it."""
    order = [panel.standings[rule] for rule in rules if rule in top]
    if not order:
        return ""
    most = panel.comparable_best(of.rule for of in order)
    others = [of.rule for of in order[1:] if of.rule in most]
    return said("findings.group", panel=panel, first=order[0], mark=mark(panel, order[0].rule), others=others,
                fewer=len(order) - 1 - len(others))  # fmt: skip


def clean_accuracy(arena: Arena) -> str:
    """Whether accuracy without attack says anything of the worst case."""
    known: dict[int, list[float]] = {}
    for attackers in arena.settled:
        for panel in arena.row(attackers):
            both = [(panel.standings[rule].clean, panel.standings[rule].worst) for rule in _rules(panel)]
            if len(both) >= _MANY:
                known.setdefault(attackers, []).append(rank_correlation(*map(list, zip(*both, strict=True))))
    values = [value for of in known.values() for value in of]
    return said("findings.clean_accuracy", arena=arena, known=known, values=values, LITTLE=_LITTLE) if known else ""


def helping(arena: Arena) -> str:
    """The attacks that help the most rules."""
    parts = []
    for of, runs in arena.settled.items():
        counts = Counter[str]()
        most: dict[str, tuple[float, str]] = {}
        for rule, remark in remarks(runs).items():
            for attack, difference in remark.helping.items():
                counts[attack] += 1
                most[attack] = max(most.get(attack, (0.0, "")), (difference.mean, rule))
        if counts:
            attack, count = counts.most_common(1)[0]
            points, rule = most[attack]
            parts.append({"number": of, "attack": attack, "count": count, "rule": rule, "points": points})
    return said("findings.helping", arena=arena, parts=parts) if parts else ""


def chosen_rates(arena: Arena) -> str:
    """How many rates lie near the upper edge of the grid."""
    rates = f"{arena.track.experiment}_rates"
    if not options.exists("experiment", rates):
        return ""
    tried = sorted({float(rate) for rate in compose.swept([f"+experiment={rates}"])["lr"]})
    chosen = {(run.rule, run.partition): run.lr for run in arena.runs if run.validated and run.rule != HONEST}
    counts = Counter(chosen.values())
    used = [(counts[rate], rate) for rate in reversed(tried) if counts[rate]]
    return said("findings.rates", tried=tried, used=used, total=len(chosen)) if chosen else ""


def idle(arena: Arena) -> str:
    """Rules that are the plain mean when nobody attacks: their defaults let them do nothing."""
    shares = alike(arena)
    named = [{"rule": rule, "share": share} for rule, share in
             sorted(shares.items(), key=lambda item: -item[1]) if share > _ALIKE]  # fmt: skip
    return said("findings.idle", named=named) if named else ""


def alike(arena: Arena) -> dict[str, float]:
    """For each rule the share of its runs without attack, at the rate of the plain mean, whose recalls equal those of
    the plain mean."""
    reference: dict[tuple[str, str, float], ArenaRun] = {}
    compared: dict[str, list[bool]] = {}
    clean = [run for run in arena.runs if run.attack == NONE and run.recall is not None]
    for run in clean:
        if run.rule == REFERENCE:
            reference[run.partition, run.seed, run.lr] = run
    for run in clean:
        other = reference.get((run.partition, run.seed, run.lr))
        if other is not None and run.rule != REFERENCE:
            compared.setdefault(run.rule, []).append(list(run.recall or []) == list(other.recall or []))
    return {rule: sum(equal) / len(equal) for rule, equal in compared.items()}


def protocol(arena: Arena) -> Sheet:
    """The protocol of the track as its configuration has it, and what its runs cost."""
    track, rates = arena.track, f"{arena.track.experiment}_rates"
    partitions = {name: compose.resolve([f"+experiment={track.experiment}", "lr=1", f"partition={name}"])
                  for name in track.swept["partition"]}  # fmt: skip
    update = track.config["local_update"]
    facts = filled(
        "findings.facts",
        track=track,
        update=[] if str(update["_target_"]).endswith(".FedSgd") else [_part(update)],
        mixing=[*map(_part, (track.config["pre_aggregation"] or {}).values())],
        config=track.config,
        tried=compose.swept([f"+experiment={rates}"])["lr"] if options.exists("experiment", rates) else [],
        partitions=[{**_part(run.config["partition"]), "name": name} for name, run in partitions.items()],
        rules=_rules_run(arena),
        time=_time(arena),
    )
    return tabled("findings.protocol", [{"fact": name, "value": value} for name, value in facts.items()], arena=arena)


def _part(content: Mapping[str, Any]) -> dict[str, Any]:
    """A part and its options, but for parts within it."""
    chosen = {key: value for key, value in content.items() if not isinstance(value, Mapping) and key != "_target_"}
    return {"name": str(content["_target_"]).rpartition(".")[2], "options": chosen}


def _rules_run(arena: Arena) -> str:
    """How many of the rules that the track sweeps were run under all attacks, and how many others."""
    swept = {str(name) for name in arena.track.swept["aggregator"]}
    run = {arena.needs.asked_as(rule)[0] for panel in arena.panels.values() for rule in panel.standings
           if panel.is_whole(rule)}  # fmt: skip
    return said("findings.rules_run", swept=len(swept), run=len(run & swept), others=len(run - swept))


def _time(arena: Arena) -> str:
    """That of all runs, the median, and that under the attack that takes longest."""
    held = grouped((run.attack, run.seconds) for run in arena.runs if run.state == "finished")
    times = {attack: median(of) for attack, of in held.items()}
    slowest = max(times, key=lambda attack: times[attack])
    every = [seconds for of in held.values() for seconds in of]
    return said("findings.time", every=every, median=median, times=times, slowest=slowest)


def conclusions(arena: Arena, earlier: Arena) -> list[str]:
    """The conclusions, the most important first, each left out where the runs do not show it; ``earlier`` is an older
    track with panels of the same names."""
    lines = [above_the_server(arena), half(arena), plans(arena), tuning(arena), heterogeneity(arena)]
    lines += [worst_attacks(arena), told_apart(arena, earlier)]
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


CONDITIONS = {
    "fashion": "on {data}",
    "text": "on {data}",
    "fashion_momentum": "on {data} with momentum",
    "silos_dropout": "where clients drop out",
}
"""Tracks with panels of ``at_a_glance`` on other data or under other conditions, and these in words."""

ELSEWHERE = (*CONDITIONS, "devices", "hospitals")
"""Tracks with other data or conditions than the panels of ``at_a_glance``."""


def elsewhere(arena: Arena, others: Mapping[str, Arena]) -> Sheet:
    """What the server alone and the best rules keep in the panels of the tracks of ELSEWHERE, of the rules that met the
    strongest attack, and how alike their order is to that of the same panel of the ``arena``."""
    records = []
    panels = [(others[name], *item) for name in ELSEWHERE if name in others for item in others[name].panels.items()]
    for other, place, panel in panels:
        if not (met := [rule for rule in contenders(panel) if rule in panel.met]):
            continue
        best = {reads: next((rule for rule in met if (SERVER_DATA in other.needs.of(rule)) == reads), None)
                for reads in page.DIVISIONS.values()}  # fmt: skip
        kept = [f"{rule} {_score(panel, rule)}" if rule else "" for rule in best.values()]
        records.append({
            "other": other, "panel": panel, "rules": contenders(panel), "met": met,
            "alone": [_score(panel, SERVER), *kept],
            "order": _beside(other.by_list[place], arena),
        })  # fmt: skip
    return tabled("findings.elsewhere", records, arena=arena)


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
