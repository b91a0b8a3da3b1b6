"""How far runs move when their initial model is moved by one unit in the last place: the error of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robustfl_bench.arena.panels import Arena
from robustfl_bench.arena.track import ArenaRun
from robustfl_bench.arena.words import cells, listed, number
from robustfl_bench.tables.sheets import Sheet

if TYPE_CHECKING:
    import pandas as pd

NUDGED, USUAL = "robustfl_bench.models.NudgedMlp", "robustfl_bench.models.Mlp"
POINT = 1.0  # of accuracy
SAME = 1e-6  # points by which files round


@dataclass(frozen=True)
class Move:
    """A cell of the arena that was run twice, and by how many points of accuracy the two differ."""

    rule: str
    partition: str
    attack: str
    seed: str
    number: int
    points: float


def moves(arena: Arena) -> list[Move]:
    """The cells that were also run from a nudged model; cells without attack belong to the least number of attackers.

    Runs that diverged in both cases are equal.
    """
    usual = {_cell(run): run for run in arena.runs}
    return [
        Move(other.rule, other.partition, other.attack, other.seed, other.num_byzantine or min(arena.track.numbers),
             100 * abs(other.accuracy - usual[_cell(other)].accuracy))
        for other in arena.track.runs(_as_usual(arena.table)) if _cell(other) in usual
    ]  # fmt: skip


def _cell(run: ArenaRun) -> tuple[object, ...]:
    return run.rule, run.partition, run.attack, run.num_byzantine, run.seed, run.lr


def _as_usual(table: pd.DataFrame) -> pd.DataFrame:
    """The runs with a nudged model, described as if it were the usual one."""
    if "model.ulps" not in table:
        return table.iloc[:0]
    nudged = table[(table["model._target_"] == NUDGED) & (table["model.ulps"].astype(float) == 1)]
    return nudged.assign(**{"model._target_": USUAL}).drop(columns="model.ulps").reset_index(drop=True)


def sheets(arena: Arena) -> list[Sheet]:
    """A table for each number of attackers: a line per rule, three columns per partition. Empty without such runs."""
    found, pages = moves(arena), []
    for of in sorted({move.number for move in found}):
        own = [move for move in found if move.number == of]
        partitions = [name for name in arena.track.swept["partition"] if any(move.partition == name for move in own)]
        rules = sorted({move.rule for move in own}, key=lambda rule: (-_share(_of(own, rule), _moved), rule))
        seeds = len({move.seed for move in own})
        pages.append(Sheet(
            above=[f"{arena.track.title(of)}: how much is rounding", f"{answer(own)}."],
            heading=["rule", *(f"{partition}: {name}" for partition in partitions
                               for name in ("equal", "moved > 1", "largest", "under"))],
            rows=[cells([rule, *_row(_of(own, rule), partitions)]) for rule in rules]
            + [cells(["all rules", *_row(own, partitions)])],
            footnotes=[
                "each cell was run twice, the second time with every initial parameter replaced by the next larger "
                "float32 number (model=nudged_mlp)",
                f"equal: share of the cells whose accuracy is the same; moved > {POINT:g}: share of those that differ "
                f"by more than a point; largest [points]: the largest difference, and under which attack; "
                f"{len({move.attack for move in own})} attacks, none included, and {seeds} seed{'s' * (seeds > 1)}",
            ],
        ))  # fmt: skip
    return pages


def answer(found: Sequence[Move]) -> str:
    """How many cells stay equal, how many move, by how much, and whose they are."""
    by_rule = {rule: _share(_of(found, rule), _moved) for rule in {move.rule for move in found}}
    most = sorted((rule for rule in by_rule if by_rule[rule]), key=lambda rule: (-by_rule[rule], rule))[:3]
    largest = max(found, key=lambda move: move.points)
    return (
        f"of {len(found)} cells, {100 * _share(found, _equal):.0f}% stay equal and {100 * _share(found, _moved):.0f}% "
        f"move by more than a point, most often those of {listed(most)}; the largest move is {largest.points:.1f} "
        f"points ({largest.rule} on {largest.partition} under {largest.attack})"
    )


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
