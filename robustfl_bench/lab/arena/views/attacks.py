"""Which attacks to try first, and what attackers who search for a rule's weakness add to the list."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from robustfl_bench.base.late import pd
from robustfl_bench.lab.arena import additions
from robustfl_bench.lab.arena.additions import SEARCHING, Addition, by_rule
from robustfl_bench.lab.arena.order import is_attacked, rows_of_panels
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel
from robustfl_bench.lab.arena.track import HONEST, SERVER, ArenaRun
from robustfl_bench.lab.arena.words import HALF, listed, said, sentence, tabled
from robustfl_bench.read.pages.pictures import curves
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet

MOST = 8
"""Length of the lists of attacks."""

NEAR = 2  # points of accuracy within which attacks count as equally harmful

Cases = Mapping[tuple[str, str], Mapping[str, float]]
"""The accuracy in percent under each attack, by rule and partition."""


def cases(runs: Iterable[ArenaRun], seeds: Iterable[str] | None = None) -> dict[tuple[str, str], dict[str, float]]:
    """The means over the seeds, by default all, of the rules that are attacked."""
    wanted = None if seeds is None else set(seeds)
    held: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in runs:
        if is_attacked(run) and run.rule != SERVER and (wanted is None or run.seed in wanted):
            held.setdefault((run.rule, run.partition), {}).setdefault(run.attack, []).append(100 * run.accuracy)
    return {case: {attack: fmean(of) for attack, of in attacks.items()} for case, attacks in held.items()}


def missed(measured: Cases, tried: Sequence[str]) -> float:
    """By how many points the worst of the attacks ``tried`` misses the worst of all, on average over the cases."""
    misses = [min(of[attack] for attack in tried if attack in of) - min(of.values())
              for of in measured.values() if any(attack in of for attack in tried)]  # fmt: skip
    return fmean(misses)


def first_attacks(measured: Cases, most: int = MOST) -> list[str]:
    """A list of attacks that misses little of the worst case: each is the one that adds most to those before it."""
    known = sorted({attack for of in measured.values() for attack in of})
    chosen: list[str] = []
    least = {case: min(of.values()) for case, of in measured.items()}
    reached = dict.fromkeys(measured, math.inf)  # by the attacks chosen so far

    def with_it(attack: str) -> dict[tuple[str, str], float]:
        return {case: min(of.get(attack, math.inf), reached[case]) for case, of in measured.items()}

    def missed_with(attack: str) -> float:
        return fmean(number - least[case] for case, number in with_it(attack).items() if number < math.inf)

    while len(chosen) < min(most, len(known)):
        chosen.append(min((attack for attack in known if attack not in chosen), key=missed_with))
        reached = with_it(chosen[-1])
    return chosen


def held_out(runs: Sequence[ArenaRun], most: int = MOST) -> list[float]:
    """The mean of ``missed`` for lists of 1, 2, ... attacks that were chosen by the runs of all seeds but one, in that
    seed; empty with a single seed."""
    seeds = sorted({run.seed for run in runs if is_attacked(run) and run.rule != SERVER})
    if len(seeds) < 2:
        return []
    by_seed = []
    for seed in seeds:
        chosen = first_attacks(cases(runs, set(seeds) - {seed}), most)
        measured = cases(runs, [seed])
        by_seed.append([missed(measured, chosen[: count + 1]) for count in range(len(chosen))])
    return [fmean(column) for column in zip(*by_seed, strict=False)]


def sheets_of_attacks(arena: Arena) -> list[Sheet]:
    pages = [_lists(arena)]
    for number, row in rows_of_panels(arena):
        rules = sorted(rule for rule in row[0].standings if rule not in (SERVER, HONEST))
        records = [{"rule": rule, "near": [_near(panel, rule) for panel in row]} for rule in rules]
        pages.append(tabled("views.attacks_on_rules", records, arena=arena, number=number, row=row, NEAR=NEAR))
    return pages


def _near(panel: ArenaPanel, rule: str) -> str:
    """The attacks that are about as harmful as the worst one."""
    means = panel.standings[rule].accuracies if rule in panel.standings else {}
    harmful = sorted((mean, attack) for attack, mean in means.items() if mean <= min(means.values()) + NEAR)
    return listed((attack for _, attack in harmful), 2) if means else ""


def _lists(arena: Arena) -> Sheet:
    records, lists = [], []
    for number, _ in rows_of_panels(arena):
        measured, unseen = cases(arena.settled[number]), held_out(arena.settled[number])
        chosen = first_attacks(measured)
        misses = [missed(measured, chosen[:count]) for count in range(1, len(chosen) + 1)]
        total = len({attack for of in measured.values() for attack in of})
        lists.append({"number": number, "chosen": chosen, "misses": misses, "unseen": unseen, "total": total})
        records += [{"number": number, "count": count, "attack": attack, "missed": misses[count - 1],
                     "unseen": unseen[count - 1] if count <= len(unseen) else None}
                    for count, attack in enumerate(chosen, 1)]  # fmt: skip
    return tabled("views.attacks", records, arena=arena, lists=lists)


def picture_of_attacks(arena: Arena, frame: Frame) -> Figure:
    points = []
    for of, _ in rows_of_panels(arena):
        measured = cases(arena.settled[of])
        chosen = first_attacks(measured)
        for partition in arena.track.swept["partition"]:
            part = {case: means for case, means in measured.items() if case[1] == partition}
            for count in range(1, len(chosen) + 1):
                points.append(("", f"{arena.share(of)} attackers", partition, count, missed(part, chosen[:count])))
    table = pd.DataFrame(points, columns=["value", "panel", "line", "x", "mean"])
    table = table.assign(low=table["mean"], high=table["mean"])
    heading = f"Arena {arena.track.name}: what a short list of attacks misses of the worst case"
    return curves.draw(curves.Curves(table, "Attacks tried", {"": "Accuracy missed [points]"}, heading), frame)


def _searched(arena: Arena) -> Sequence[Addition]:
    if not arena.additions:
        raise NoRuns(said("views.not_searched", arena=arena, SEARCHING=SEARCHING))
    return arena.additions


def answer(arena: Arena) -> str:
    """In how many cases searching does more harm than the list, and which leading rules it breaks."""
    found = _searched(arena)
    worst = Counter(of.attack for panel in arena.panels.values() for of in panel.standings.values())
    words = [said("views.searched_by", verdict=additions.verdict(name, of), worst=worst[name])
             for name in arena.searched if (of := [case for case in found if case.by == name])]  # fmt: skip
    least = [of for panel in dict.fromkeys(case.panel for case in found) for of in by_rule(panel, found).values()]
    held = [of for of in least if of.panel.scaled(of.least) >= HALF]
    broken = sorted(
        (of for of in held if of.score.value < HALF), key=lambda of: of.score.value - of.panel.scaled(of.least)
    )
    if broken:
        whole = Counter(of.rule for of in held if of.score.value >= HALF)
        stand = [f"{rule} in {count}" for rule, count in whole.most_common()]
        words.append(said("views.searched_breaks", arena=arena, held=held, broken=broken, stand=stand))
    return ". ".join(map(sentence, words))


def sheets_of_searches(arena: Arena) -> list[Sheet]:
    found, pages = _searched(arena), list[Sheet]()
    for name in arena.searched:
        own = [of for of in found if of.by == name]
        title = f"Arena {arena.track.name}: {name}, against the list"
        shown = additions.sheet(arena, name, own, _carried_out(arena, name))
        pages.append(replace(shown, above=[title, sentence(shown.above[1])]))
    pages[0] = replace(pages[0], above=[pages[0].above[0], f"{answer(arena)}."])
    return pages


def _carried_out(arena: Arena, name: str) -> dict[tuple[int, str, str], list[str]]:
    """What the runs of a rule in a panel ended with; unknown where all models diverged."""
    from robustfl_bench.parts.attacks.pool import POOL, SEARCHES
    from robustfl_bench.parts.attacks.steered import HEADINGS

    quiet = [policy for policy in POOL if policy not in SEARCHES]
    policies = {"planned": [*POOL], "blindspot": [*quiet, *(f"push {heading}" for heading in HEADINGS)]}[name]
    counts = defaultdict[tuple[int, str, str], Counter[str]](Counter)
    for run in arena.searched[name]:
        if (place := run.last.get("attack_policy")) is not None:
            counts[run.num_byzantine, run.partition, run.rule][policies[int(place)]] += 1
    return {where: [policy for policy, _ in of.most_common()] for where, of in counts.items()}
