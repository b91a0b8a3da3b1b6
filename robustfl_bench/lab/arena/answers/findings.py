"""What an arena shows, in sentences whose numbers are computed from its runs; and its protocol as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from robustfl_bench.lab.arena import page
from robustfl_bench.lab.arena.conditions import conditioned, remarks
from robustfl_bench.lab.arena.pairs import BELOW, UNSHOWN, mark
from robustfl_bench.lab.arena.panels import REFERENCE, Arena, ArenaPanel
from robustfl_bench.lab.arena.track import HONEST, NONE, SERVER, ArenaRun
from robustfl_bench.lab.arena.views import VIEWS
from robustfl_bench.lab.arena.views.base import ArenaView
from robustfl_bench.lab.arena.words import filled, said, tabled
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet
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
    for number in arena.settled:
        row = arena.row(number)
        above = _by_partition(row, _above_server) if all(of.server for of in row) and not arena.track.is_raced else []
        held = _by_partition(row, near)
        counts.append({"number": number, "rules": len(_rules(row[0])), "near": held, "above": above})
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
    for number in arena.settled:
        for panel in arena.row(number):
            pairs = [(panel.standings[rule].clean, panel.standings[rule].worst) for rule in _rules(panel)]
            if len(pairs) >= _MANY:
                known.setdefault(number, []).append(rank_correlation(*map(list, zip(*pairs, strict=True))))
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
    held: dict[str, list[float]] = {}
    for run in arena.runs:
        if run.state == "finished":
            held.setdefault(run.attack, []).append(run.seconds)
    times = {attack: median(of) for attack, of in held.items()}
    slowest = max(times, key=lambda attack: times[attack])
    every = [seconds for of in held.values() for seconds in of]
    return said("findings.time", every=every, median=median, times=times, slowest=slowest)
