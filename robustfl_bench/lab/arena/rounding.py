"""How far runs move when numbers are rounded otherwise: from an initial model moved by one unit in the last place, on
another machine, and with kernels that add up in another order."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from robustfl_bench.base.console import counted
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import NONE, ArenaRun
from robustfl_bench.lab.arena.words import cells, listed, number
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.store.kept import ARENA, FOLDER, sealed_content

NUDGED, USUAL = "robustfl_bench.models.NudgedMlp", "robustfl_bench.models.Mlp"
POINT = 1.0  # of accuracy
SAME = 1e-6  # points by which files round
_ORDERED = 3  # rules from which on their order is told
USUAL_KERNELS, AVX2 = "usual", "avx2"
KERNELS = ("rule", "partition", "num_byzantine", "attack", "seed", USUAL_KERNELS, AVX2)
"""The columns of the file of ``kernels``: a cell, and its accuracy with either, a fraction."""


@dataclass(frozen=True)
class Move:
    """A cell of the arena that was run twice, and both accuracies in percent."""

    rule: str
    partition: str
    attack: str
    seed: str
    number: int
    before: float
    after: float

    @property
    def points(self) -> float:
        """By how many points the two differ."""
        return abs(self.after - self.before)


def nudged(arena: Arena) -> list[Move]:
    """The cells that were run from an initial model and, on the same machine, from that model moved by one unit in the
    last place.

    Cells without attack belong to the least number of attackers. Runs that diverged in both cases are equal.
    """
    return _moves(arena, _with_ulps(arena, 0), _with_ulps(arena, 1))


def elsewhere(arena: Arena) -> list[Move]:
    """The cells that were run for the arena and, from the same initial model, beside those of ``nudged``."""
    return _moves(arena, arena.runs, _with_ulps(arena, 0))


def kernels(arena: Arena) -> list[Move]:
    """The cells that were run on one machine with the kernels that PyTorch chooses for it, and with those for AVX2."""
    path = FOLDER / ARENA / f"{arena.track.name}_kernels.csv"
    if not path.is_file():
        return []
    return [
        Move(line["rule"], line["partition"], line["attack"], line["seed"],
             int(line["num_byzantine"]) or min(arena.track.numbers),
             100 * float(line[USUAL_KERNELS]), 100 * float(line[AVX2]))
        for line in csv.DictReader(sealed_content(path).decode().splitlines())
    ]  # fmt: skip


def _moves(arena: Arena, runs: Iterable[ArenaRun], others: Iterable[ArenaRun]) -> list[Move]:
    known = {_cell(run): run for run in runs}
    return [
        Move(other.rule, other.partition, other.attack, other.seed, other.num_byzantine or min(arena.track.numbers),
             100 * known[_cell(other)].accuracy, 100 * other.accuracy)
        for other in others if _cell(other) in known
    ]  # fmt: skip


def _cell(run: ArenaRun) -> tuple[object, ...]:
    return run.rule, run.partition, run.attack, run.num_byzantine, run.seed, run.lr


def _with_ulps(arena: Arena, ulps: int) -> list[ArenaRun]:
    """The runs of the track whose initial model was moved by so many units in the last place, named as the usual
    ones."""
    table = arena.table
    if "model.ulps" not in table:
        return []
    chosen = table[(table["model._target_"] == NUDGED) & (table["model.ulps"].astype(float) == ulps)]
    return arena.track.runs(
        chosen.assign(**{"model._target_": USUAL}).drop(columns="model.ulps").reset_index(drop=True)
    )


def sheets(arena: Arena) -> list[Sheet]:
    """For each number of attackers, a table for each of ``nudged``, ``elsewhere`` and ``kernels`` that has such runs: a
    line per rule, four columns per partition."""
    kinds = (
        (nudged, "an initial model moved by one unit in the last place",
         "each cell was run twice on one machine, the second time with every initial parameter replaced by the next "
         "larger float32 number (model=nudged_mlp)"),
        (elsewhere, "another machine",
         "the cells of the arena beside the same cells, with the same code, on the machine of the table above"),
        (kernels, "AVX2 kernels",
         "each cell was run twice on one machine, which has AVX-512, the second time with PyTorch's kernels for AVX2 "
         "(ATEN_CPU_CAPABILITY=avx2)"),
    )  # fmt: skip
    found = [(kind(arena), title, note) for kind, title, note in kinds]
    return [_sheet(arena, of, own, title, note)
            for of in arena.track.numbers for moves, title, note in found
            if (own := [move for move in moves if move.number == of])]  # fmt: skip


def _sheet(arena: Arena, of: int, own: Sequence[Move], title: str, note: str) -> Sheet:
    partitions = [name for name in arena.track.swept["partition"] if any(move.partition == name for move in own)]
    rules = sorted({move.rule for move in own}, key=lambda rule: (-_share(_of(own, rule), _moved), rule))
    seeds, attacks = (len({getattr(move, name) for move in own}) for name in ("seed", "attack"))
    return Sheet(
        above=[f"{arena.track.title(of)}: {title}", f"{answer(own)}.", *_orders(own, partitions)],
        heading=["rule", *(f"{partition}, {name}" for partition in partitions
                           for name in ("equal", f"moved > {POINT:g}", "largest", "under"))],
        rows=[cells([rule, *_row(_of(own, rule), partitions)]) for rule in rules]
        + [cells(["all rules", *_row(own, partitions)])],
        footnotes=[
            note,
            f"equal: share of the cells whose accuracy is the same; moved > {POINT:g}: share of those that differ by "
            "more than a point; largest [points]: the largest difference, and under which attack; "
            f"{attacks} attacks, none included, and {counted(seeds, 'seed')}",
        ],
    )  # fmt: skip


def answer(found: Sequence[Move]) -> str:
    """How many cells stay equal, how many move, by how much, and whose they are."""
    by_rule = {rule: _share(_of(found, rule), _moved) for rule in {move.rule for move in found}}
    most = sorted((rule for rule in by_rule if by_rule[rule]), key=lambda rule: (-by_rule[rule], rule))[:3]
    whose = f", most often those of {listed(most)}" if most else ""
    largest = max(found, key=lambda move: move.points)
    return (
        f"of {len(found)} cells, {100 * _share(found, _equal):.0f}% stay equal and {100 * _share(found, _moved):.0f}% "
        f"move by more than a point{whose}; the largest move is {largest.points:.1f} points "
        f"({largest.rule} on {largest.partition} under {largest.attack})"
    )


def order(found: Iterable[Move]) -> tuple[int, float]:
    """The number of rules, and how alike the two runs of their cells order them: the rank correlation of their worst
    cases, each the least over attacks of the means over seeds."""
    cells = defaultdict[str, defaultdict[str, list[Move]]](lambda: defaultdict(list))
    for move in found:
        if move.attack != NONE:
            cells[move.rule][move.attack].append(move)
    worst = [[min(fmean(getattr(move, name) for move in of) for of in attacks.values()) for attacks in cells.values()]
             for name in ("before", "after")]  # fmt: skip
    return len(cells), rank_correlation(*worst)


def _orders(own: Sequence[Move], partitions: Sequence[str]) -> Iterator[str]:
    """The order of the rules in each partition, in words; nothing for too few rules."""
    found = {name: order(move for move in own if move.partition == name) for name in partitions}
    parts = [f"{of:.2f} over {rules} rules in {name}" for name, (rules, of) in found.items() if rules >= _ORDERED]
    if parts:
        yield f"The rank correlation of the rules' worst cases in both: {listed(parts)}."


def _of(found: Iterable[Move], rule: str) -> list[Move]:
    return [move for move in found if move.rule == rule]


def _equal(move: Move) -> bool:
    return move.points < SAME


def _moved(move: Move) -> bool:
    return move.points > POINT


def _share(found: Sequence[Move], holds: Callable[[Move], bool]) -> float:
    return sum(map(holds, found)) / len(found)


def _row(found: Sequence[Move], partitions: Iterable[str]) -> Iterator[str]:
    for partition in partitions:
        own = [move for move in found if move.partition == partition]
        if not own:
            yield from [""] * 4
            continue
        largest = max(own, key=lambda move: move.points)
        yield f"{100 * _share(own, _equal):.0f}%"
        yield f"{100 * _share(own, _moved):.0f}%"
        yield number(largest.points)
        yield "" if _equal(largest) else largest.attack
