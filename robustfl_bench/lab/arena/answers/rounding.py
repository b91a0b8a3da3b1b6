"""How far runs move when numbers are rounded otherwise: from an initial model moved by one unit in the last place, on
another machine, and with kernels that add up in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from robustfl_bench.base.grouping import grouped
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.rows import sealed_rows, worst_case
from robustfl_bench.lab.arena.track import NONE, ArenaRun
from robustfl_bench.lab.arena.words import number, said, tabled
from robustfl_bench.read.runs.statistics import rank_correlation
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.store.kept import ARENA, FOLDER

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
    return [
        Move(line["rule"], line["partition"], line["attack"], line["seed"],
             int(line["num_byzantine"]) or min(arena.track.numbers),
             100 * float(line[USUAL_KERNELS]), 100 * float(line[AVX2]))
        for line in sealed_rows(FOLDER / ARENA / f"{arena.track.name}_kernels.csv")
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
    found = [(kind.__name__, kind(arena)) for kind in (nudged, elsewhere, kernels)]
    return [_sheet(arena, number, own, kind) for number in arena.track.numbers for kind, moves in found
            if (own := [move for move in moves if move.number == number])]  # fmt: skip


def _sheet(arena: Arena, number: int, own: Sequence[Move], kind: str) -> Sheet:
    partitions = [name for name in arena.track.swept["partition"] if any(move.partition == name for move in own)]
    rules = sorted({move.rule for move in own}, key=lambda rule: (-_share(_of(own, rule), _moved), rule))
    seeds, attacks = (len({getattr(move, name) for move in own}) for name in ("seed", "attack"))
    records = [{"rule": rule, "parts": _row(_of(own, rule), partitions)} for rule in rules]
    records.append({"rule": "all rules", "parts": _row(own, partitions)})
    headings = [f"{name}, {part}" for name in partitions for part in ("equal", "moved > 1", "largest", "under")]
    orders = [{"partition": name, "rules": count, "alike": alike} for name in partitions
              for count, alike in [order(move for move in own if move.partition == name)]
              if count >= _ORDERED]  # fmt: skip
    return tabled("tables.moves", records, arena=arena, number=number, kind=kind, answer=answer(own), orders=orders,
                  headings=headings, attacks=attacks, seeds=seeds)  # fmt: skip


def answer(found: Sequence[Move]) -> str:
    """How many cells stay equal, how many move, by how much, and whose they are."""
    by_rule = {rule: _share(_of(found, rule), _moved) for rule in {move.rule for move in found}}
    return said(
        "tables.moves_say",
        found=found,
        equal=_share(found, _equal),
        moved=_share(found, _moved),
        most=sorted((rule for rule in by_rule if by_rule[rule]), key=lambda rule: (-by_rule[rule], rule))[:3],
        largest=max(found, key=lambda move: move.points),
    )


def order(found: Iterable[Move]) -> tuple[int, float]:
    """The number of rules, and how alike the two runs of their cells order them: the rank correlation of their worst
    cases, each the least over attacks of the means over seeds."""
    moves = grouped((move.rule, move) for move in found if move.attack != NONE).values()
    worst = [[worst_case((move.attack, getattr(move, name)) for move in of) for of in moves]
             for name in ("before", "after")]  # fmt: skip
    return len(moves), rank_correlation(*worst)


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
