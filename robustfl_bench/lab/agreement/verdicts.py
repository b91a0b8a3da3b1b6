"""Verdicts on the claims of a paper, from measured numbers and, for comparison, from the paper's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from robustfl_bench.read.runs.statistics import LEVEL, Interval, interval, level_at_each
from robustfl_bench.read.tables.claims import Claim, Comparison, Key, Side
from robustfl_bench.read.tables.table import Cell, Table

HOLDS, FAILS, FEW, UNTESTED = "holds", "does not hold", "too few seeds", "not tested"
VERDICTS = (HOLDS, FAILS, FEW, UNTESTED)
UNDECIDED = "undecided"
"""What FEW is called where no further look is planned."""

_SLACK = 1e-9  # of a comparison: 0.19 + 0.02 is not more than 0.21


@dataclass(frozen=True)
class Number:
    """A mean and, if they are known, the numbers of the ``seeds`` that it is the mean of. An ``exact`` number is the
    same for every seed."""

    mean: float
    seeds: Mapping[str, float] = field(default_factory=dict)
    exact: bool = False


Margins = tuple[float, ...]
"""By how much a comparison is true, in each seed."""


@dataclass(frozen=True)
class Finding:
    """A comparison with its numbers. ``margin`` is by how much the comparison is true, negative if it is false.

    ``looks`` are the margins of the shared seeds at each look, which is tested at ``level``. Margins are those of
    ``strata`` conditions, one after the other.

    ``proofs`` has for each look the margins that must all be true to prove the comparison, ``refutations`` those that
    must all be false to refute it: one for each cell of an extreme if every cell counts, such as an attack that could
    be worse than the worst on average. Where one cell is enough, some may lack seeds for a proof. This cell is chosen
    by the same numbers, so tests are widened (Bonferroni) for the cells or pairs of cells that it is ``chosen`` from:
    how many for a proof, and for a refutation.
    """

    comparison: Comparison
    left: Number
    right: Number
    margin: float
    looks: tuple[Margins, ...] = ()
    proofs: tuple[tuple[Margins, ...], ...] = ()
    refutations: tuple[tuple[Margins, ...], ...] = ()
    level: float = LEVEL
    chosen: tuple[int, int] = (1, 1)
    strata: int = 1

    @property
    def interval(self) -> Interval | None:
        """The confidence interval of the margin at the last look, paired over shared seeds; None for fewer than two."""
        return interval(self.looks[-1], self.level, self.strata) if self.looks else None

    @property
    def true(self) -> bool:
        """Whether the comparison is true of the means."""
        return self._reached(self.margin)

    @property
    def proven(self) -> bool:
        """Whether the comparison is true at every margin in the interval of one of the looks."""
        if self._exact:
            return self.true
        level = 1 - (1 - self.level) / self.chosen[0]
        return any(all(one is not None and self._reached(one.low) for one in self._intervals(margins, level))
                   for margins in self.proofs)  # fmt: skip

    def refuted(self, comparisons: int = 1) -> bool:
        """Whether the comparison is false at every margin in the interval of one of the looks, widened for a number of
        comparisons (Bonferroni)."""
        if self._exact:
            return not self.true
        level = 1 - (1 - self.level) / comparisons / self.chosen[1]
        return any(all(one is not None and not self._reached(one.high) for one in self._intervals(margins, level))
                   for margins in self.refutations)  # fmt: skip

    @property
    def _exact(self) -> bool:
        return self.left.exact and self.right.exact

    def _intervals(self, margins: Sequence[Margins], level: float) -> Iterator[Interval | None]:
        return (interval(one, level, self.strata) for one in margins)

    def _reached(self, margin: float) -> bool:
        return margin >= -_SLACK if "=" in self.comparison.relation else margin > _SLACK


@dataclass(frozen=True)
class Verdict:
    """A claim as measured: the ``findings`` are its comparisons with numbers on both sides.

    ``published`` are those of the paper's own numbers.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    published: tuple[Finding, ...]

    @property
    def word(self) -> str:
        """One of VERDICTS.

        A claim holds if each of its comparisons is ``proven`` by its 95% interval, which keeps the level for all of
        them together. It does not hold if one comparison is ``refuted`` by an interval that is widened for the number
        of comparisons (Bonferroni), as among many one would be refuted by chance. Otherwise the seeds are too few."""
        if any(finding.refuted(len(self.claim.comparisons)) for finding in self.findings):
            return FAILS
        if len(self.findings) < len(self.claim.comparisons):
            return UNTESTED
        return HOLDS if all(finding.proven for finding in self.findings) else FEW

    @property
    def true(self) -> int:
        """How many comparisons are true of the means."""
        return sum(finding.true for finding in self.findings)

    @property
    def as_claimed(self) -> bool:
        """Whether all comparisons are true of the means."""
        return self.true == len(self.claim.comparisons)

    @property
    def seeds(self) -> tuple[int, int]:
        """The least and the largest number of seeds of a number that is compared; zeros without any."""
        counts = [len(side.seeds) for finding in self.findings for side in (finding.left, finding.right) if side.seeds]
        return min(counts, default=0), max(counts, default=0)

    @property
    def decided(self) -> bool:
        """Whether the claim holds or does not hold."""
        return self.word in (HOLDS, FAILS)


def judge(claim: Claim, table: Table, looks: Sequence[int] = (), level: float = LEVEL) -> Verdict:
    """The verdict on a claim about the table.

    ``looks`` are the numbers of seeds at which it is judged, fixed before the runs: each comparison is tested with the
    first seeds of a look, at a level that keeps LEVEL over all of them (``level_at_each``), and what a look has shown
    stays. Without looks it is judged once, with all seeds, at ``level``. Cells that a stand-in measured have no
    number here.
    """
    measured = numbers(table)
    tables = [table.of_first(look) for look in looks] if looks else [table]
    at_looks = [_Numbers(one, numbers(one), numbers(one, in_part=True)) for one in tables]
    level = level_at_each(tuple(looks)) if looks else level
    published = {key: Number(cell.against.number) for key, cell in table.cells.items() if cell.against}
    findings = []
    for finding in _findings(claim, measured):
        comparison = finding.comparison
        suffices = one_suffices(comparison, table)
        all_but = not suffices[0], not suffices[1]
        findings.append(replace(
            finding,
            looks=tuple(filter(None, (_paired(comparison, *_sides(comparison, look.whole)) for look in at_looks))),
            proofs=tuple(filter(None, (_needed(comparison, look, suffices, in_part=True) for look in at_looks))),
            refutations=tuple(filter(None, (_needed(comparison, look, all_but) for look in at_looks))),
            level=level,
            chosen=_chosen(comparison, table, suffices),
            strata=_strata(finding),
        ))  # fmt: skip
    return Verdict(claim, tuple(findings), _findings(claim, published))


Known = Mapping[Key, Number]
"""Cells with their numbers."""


@dataclass(frozen=True)
class _Numbers:
    """A table of the seeds of a look, with its numbers. ``part`` has also worst cases without all attacks."""

    table: Table
    whole: Known
    part: Known


def numbers(table: Table, *, in_part: bool = False) -> Known:
    """The numbers of the cells that have one. ``in_part``: worst cases also count if attacks are missing."""
    return {key: number for key, cell in table.cells.items() if (number := _number_of(table, key, cell, in_part))}


def extreme_of(side: Side, table: Table) -> str:
    """``max`` or ``min`` for a side that is an extreme of several cells, such as a worst case; else empty."""
    if len(side.keys) == 1 and (column := table.column(side.keys[0][2])).worst:
        return "min" if column.value.better > 0 else "max"
    return side.extreme


def _strata(finding: Finding) -> int:
    """Of how many conditions the seeds of a comparison are, which stand before the seed: ``fang 0``."""
    seeds = finding.left.seeds or finding.right.seeds
    return max(len({seed.rpartition(" ")[0] for seed in seeds}), 1)


def cells_of(side: Side, table: Table) -> Iterator[Key]:
    """The cells of a side: all attacks of a row for its worst case."""
    for block, row, label in side.keys:
        if not (column := table.column(label)).worst:
            yield block, row, label
            continue
        same = (other.label for other in table.columns if other.attacked and other.value.name == column.value.name)
        yield from (key for other in same if (key := (block, row, other)) in table.cells)


def _chosen(comparison: Comparison, table: Table, suffices: tuple[bool, bool]) -> tuple[int, int]:
    """From how many cells that which proves a comparison is chosen, and that which refutes it."""
    proves = refutes = 1
    for side, one in zip((comparison.left, comparison.right), suffices, strict=True):
        if extreme_of(side, table):
            count = sum(1 for _ in cells_of(side, table))
            proves, refutes = (proves * count, refutes) if one else (proves, refutes * count)
    return proves, refutes


def one_suffices(comparison: Comparison, table: Table) -> tuple[bool, bool]:
    """Whether one cell of the left and of the right side is enough to prove a comparison.

    It is if the comparison calls a side the smaller one, and this side is the least of several cells: the others can
    only make it smaller. So it is for the largest of several cells on the larger side.
    """
    smaller = "min", "max"
    expected = smaller if comparison.relation.startswith("<") else smaller[::-1]
    return extreme_of(comparison.left, table) == expected[0], extreme_of(comparison.right, table) == expected[1]


def _number_of(table: Table, key: Key, cell: Cell, in_part: bool) -> Number | None:
    """The number of a cell, or None. A model that diverged counts as the worst that there can be."""
    value = table.column(key[2]).value
    if cell.stand_in or (cell.worst and cell.partial and not in_part):
        return None
    if cell.diverged:
        return Number(cell.counts_as(value), cell.counted(value))
    if not cell.seeds:
        return None
    return Number(cell.mean, cell.numbers, value.exact)


def _findings(claim: Claim, known: Mapping[Key, Number]) -> tuple[Finding, ...]:
    findings = []
    for comparison in claim.comparisons:
        left, right = _sides(comparison, known)
        if left and right:
            margin = _sign(comparison) * (left.mean - right.mean - comparison.shift)
            findings.append(Finding(comparison, left, right, margin))
    return tuple(findings)


def _sides(
    comparison: Comparison, whole: Known, part: Known | None = None, in_part: tuple[bool, bool] = (False, False)
) -> tuple[Number | None, Number | None]:
    """The numbers of both sides, of some of its cells for a side that is ``in_part``."""
    sides = zip((comparison.left, comparison.right), in_part, strict=True)
    left, right = (_number(side, part or {}, in_part=True) if one else _number(side, whole) for side, one in sides)
    return left, right


def _number(side: Side, known: Known, *, in_part: bool = False) -> Number | None:
    """The number of a side, or None. ``in_part``: an extreme also has one if some of its cells have none."""
    if not side.keys:
        return Number(side.number, exact=True)
    compared = [known[key] for key in side.keys if key in known]
    if not compared or (len(compared) < len(side.keys) and not in_part):
        return None
    return (min if side.extreme == "min" else max)(compared, key=lambda number: number.mean)


def _sign(comparison: Comparison) -> int:
    return 1 if comparison.relation.startswith(">") else -1


def _paired(comparison: Comparison, left: Number | None, right: Number | None) -> Margins:
    """By how much a comparison is true in each seed that both sides have."""
    if not left or not right:
        return ()
    ours = left.seeds if comparison.left.keys else dict.fromkeys(right.seeds, left.mean)
    theirs = right.seeds if comparison.right.keys else dict.fromkeys(left.seeds, right.mean)
    return tuple(_sign(comparison) * (ours[seed] - theirs[seed] - comparison.shift) for seed in ours if seed in theirs)


def _needed(
    comparison: Comparison, look: _Numbers, suffices: tuple[bool, bool], *, in_part: bool = False
) -> tuple[Margins, ...]:
    """The margins that must all be true, or all false: those of every cell of an extreme, or of the cell that attains
    it where one ``suffices``. ``in_part``: there the others may lack numbers."""
    left, right = _sides(comparison, look.whole, look.part, suffices if in_part else (False, False))
    if not left or not right:
        return ()
    lefts, rights = (
        [number] if one or not extreme_of(side, look.table) else
        [look.whole[key] for key in cells_of(side, look.table) if key in look.whole]
        for side, number, one in zip((comparison.left, comparison.right), (left, right), suffices, strict=True)
    )  # fmt: skip
    return tuple(_paired(comparison, one, other) for one in lefts for other in rights)
