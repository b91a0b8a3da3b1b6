"""At which share of attackers a rule collapses, and the price of a wrong f."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from robustfl_bench.base.grouping import grouped
from robustfl_bench.base.late import np, pd
from robustfl_bench.lab.arena.order import is_attacked, mean_scores, rows_of_panels
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.rows import worst_case
from robustfl_bench.lab.arena.track import SERVER, ArenaRun
from robustfl_bench.lab.arena.words import HALF, said, tabled
from robustfl_bench.read.pages.pictures import curves, heat
from robustfl_bench.read.pages.pictures.canvas import Figure, Frame
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables.sheets import Sheet

_SHOWN = 6  # rules in the picture


def levels(arena: Arena) -> dict[tuple[str, str], dict[float, float]]:
    """The score of each rule and partition by share of attackers in percent; at 0 that of the runs without attack."""
    held: dict[tuple[str, str], dict[float, float]] = {}
    for (of, partition), panel in arena.panels.items():
        for rule, standing in panel.standings.items():
            if panel.is_whole(rule) and rule != SERVER:
                by_share = held.setdefault((rule, partition), {})
                by_share.setdefault(0.0, panel.scaled(standing.clean))
                by_share[100 * of / arena.track.clients] = standing.score.value
    return held


def collapse(by_share: dict[float, float]) -> tuple[float, float]:
    """The shares of attackers between which the score falls below HALF for the first time: the last at which the rule
    holds, and the first at which it does not. The first is -1 for a rule that never holds, the second infinite for one
    that always does."""
    holds = -1.0
    for share in sorted(by_share):
        if not by_share[share] >= HALF:
            return holds, share
        holds = share
    return holds, float("inf")


def bracket(by_share: dict[float, float]) -> str:
    """``collapse`` in words."""
    holds, falls = collapse(by_share)
    if holds < 0:
        return "without attack"
    if falls == float("inf"):
        return f"> {holds:.0f}%"
    return f"< {falls:.0f}%" if holds == 0 else f"{holds:.0f} to {falls:.0f}%"


def sheets_of_collapse(arena: Arena) -> list[Sheet]:
    rows, held = [row for _, row in rows_of_panels(arena)], levels(arena)
    partitions = arena.track.swept["partition"]
    shares = sorted({share for by_share in held.values() for share in by_share} - {0.0})
    counts = []
    for partition in partitions:
        last = [collapse(by_share)[0] for (_, name), by_share in held.items() if name == partition]
        holding = [(share, sum(holds >= share for holds in last)) for share in shares]
        counts.append({"partition": partition, "holding": holding})
    total = {rule: sum(mean_scores(row).get(rule, 0.0) for row in rows) for rule, _ in held}
    records = [{"rule": rule, "brackets": [bracket(held[rule, name]) if (rule, name) in held else ""
                                           for name in partitions]}
               for rule in sorted(total, key=lambda rule: (-total[rule], rule))]  # fmt: skip
    return [tabled("views.collapse", records, arena=arena, partitions=partitions, counts=counts, rules=len(total))]


def picture_of_collapse(arena: Arena, frame: Frame) -> Figure:
    held = levels(arena)
    rows = [row for _, row in rows_of_panels(arena)]
    total = {rule: sum(mean_scores(row).get(rule, 0.0) for row in rows) for rule, _ in held}
    best = sorted(total, key=lambda rule: -total[rule])[:_SHOWN]
    points = [("", partition, rule, share, score) for partition in arena.track.swept["partition"] for rule in best
              for share, score in sorted(held.get((rule, partition), {}).items())]  # fmt: skip
    table = pd.DataFrame(points, columns=["value", "panel", "line", "x", "mean"])
    table = table.assign(low=table["mean"], high=table["mean"])
    heading = f"Arena {arena.track.name}: the {len(best)} best rules against the share of attackers"
    drawn = curves.Curves(table, "Attackers [% of clients]", {"": "Score"}, heading, methods=True)
    return curves.draw(drawn, frame.at("column"))


NEAR = 5  # points of accuracy


@dataclass(frozen=True)
class WrongF:
    """The worst case in percent of each rule by the number of attackers that it assumes: the least over ``attacks`` of
    the means over seeds, then the mean over ``partitions``. All with ``number`` attackers and the same attacks."""

    number: int
    attacks: tuple[str, ...]
    partitions: tuple[str, ...]
    worst: dict[str, dict[int, float]]

    @property
    def assumed(self) -> list[int]:
        """The numbers of attackers that were assumed."""
        return sorted({f for by_f in self.worst.values() for f in by_f})


def wrong_assumptions(runs: Iterable[ArenaRun]) -> list[WrongF]:
    """For each number of attackers with runs of a wrong f; the right f has the same partitions, attacks and seeds."""
    attacked = [run for run in runs if is_attacked(run) and run.declared is not None]
    numbers = sorted({run.num_byzantine for run in attacked if run.declared != run.num_byzantine})
    return [_wrong_assumption([run for run in attacked if run.num_byzantine == of], of) for of in numbers]


def _wrong_assumption(runs: list[ArenaRun], of: int) -> WrongF:
    wrong = [run for run in runs if run.declared != of]
    conditions = {(run.partition, run.attack, run.seed) for run in wrong}
    rules = {run.rule for run in wrong}
    held = grouped(
        ((run.rule, run.declared), (run.partition, (run.attack, 100 * run.accuracy)))
        for run in runs
        if run.rule in rules and (run.partition, run.attack, run.seed) in conditions and run.declared is not None
    )
    worst: dict[str, dict[int, float]] = {rule: {} for rule in sorted(rules)}
    for (rule, declared), cells in held.items():
        worst[rule][declared] = fmean(map(worst_case, grouped(cells).values()))
    attacks = tuple(sorted({run.attack for run in wrong}))
    return WrongF(of, attacks, tuple(sorted({run.partition for run in wrong})), worst)


def answer_of_declared(arena: Arena) -> str:
    """How many rules keep their worst case with each wrong f."""
    sentences = []
    for found in wrong_assumptions(arena.runs):
        for f in found.assumed:
            changes = {rule: by_f[f] - by_f[found.number] for rule, by_f in found.worst.items()
                       if f in by_f and found.number in by_f}  # fmt: skip
            if f == found.number or not changes:
                continue
            less = sorted((rule for rule in changes if changes[rule] < -NEAR), key=lambda rule: changes[rule])
            more = sorted((rule for rule in changes if changes[rule] > NEAR), key=lambda rule: -changes[rule])
            sentences.append(said("views.declared_says", found=found, f=f, change=fmean(changes.values()), NEAR=NEAR,
                                  less=less, more=more, rules=len(changes)))  # fmt: skip
    return "; ".join(sentences)


def sheets_of_declared(arena: Arena) -> list[Sheet]:
    pages = []
    for found in _found(arena):
        records = [{"rule": rule, "numbers": [by_f.get(f) for f in found.assumed]}
                   for rule, by_f in found.worst.items()]  # fmt: skip
        pages.append(tabled("views.declared", records, arena=arena, found=found, answer=answer_of_declared(arena)))
    return pages


def _found(arena: Arena) -> list[WrongF]:
    if not (found := wrong_assumptions(arena.runs)):
        raise NoRuns(said("views.not_declared", arena=arena))
    return found


def picture_of_declared(arena: Arena, frame: Frame) -> Figure:
    shown = []
    for found in _found(arena):
        rules = sorted(found.worst, key=lambda rule: -found.worst[rule].get(found.number, 0.0))
        values = np.array([[found.worst[rule].get(f, np.nan) for f in found.assumed] for rule in rules])
        right = found.assumed.index(found.number)
        marked = frozenset((place, right) for place in range(len(rules)))
        title = f"{found.number} attackers (framed: the right f)"
        shown.append(heat.HeatPanel(title, rules, [f"f = {f}" for f in found.assumed], values, marked))
    heading = f"Arena {arena.track.name}: the worst case if the server assumes f attackers"
    return heat.draw(shown, heat.Scale("Test accuracy [%]", 0, 100), "", "", heading, frame)
