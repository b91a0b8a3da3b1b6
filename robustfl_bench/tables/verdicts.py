"""Verdicts on the claims of a paper, from measured numbers and, for comparison, from the paper's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from robustfl_bench.runs.statistics import LEVEL, Interval, interval
from robustfl_bench.tables.claims import Claim, Comparison, Key, Side
from robustfl_bench.tables.table import DIVERGED, Cell, Table

HOLDS, FAILS, FEW, UNTESTED = "holds", "does not hold", "too few seeds", "not tested"
VERDICTS = (HOLDS, FAILS, FEW, UNTESTED)

_SLACK = 1e-9  # of a comparison: 0.19 + 0.02 is not more than 0.21


@dataclass(frozen=True)
class Number:
    """A mean and, if they are known, the numbers of the ``seeds`` that it is the mean of. An ``exact`` number is the
    same for every seed."""

    mean: float
    seeds: Mapping[str, float] = field(default_factory=dict)
    exact: bool = False


@dataclass(frozen=True)
class Finding:
    """A comparison with its numbers. ``margin`` is by how much the comparison is true, negative if it is false.

    ``interval`` is the confidence interval of the margin, paired over shared seeds; None for fewer than two seeds.
    """

    comparison: Comparison
    left: Number
    right: Number
    margin: float
    interval: Interval | None

    @property
    def true(self) -> bool:
        """Whether the comparison is true of the means."""
        return self._reached(self.margin)

    @property
    def proven(self) -> bool:
        """Whether the comparison is true at every margin in the interval."""
        return self._reached(self.interval.low) if self.interval else self._exact and self.true

    @property
    def refuted(self) -> bool:
        """Whether the comparison is false at every margin in the interval."""
        return not self._reached(self.interval.high) if self.interval else self._exact and not self.true

    @property
    def _exact(self) -> bool:
        return self.left.exact and self.right.exact

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
        if any(finding.refuted for finding in self._widened):
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
    def _widened(self) -> list[Finding]:
        level = 1 - (1 - LEVEL) / len(self.claim.comparisons)
        return [_finding(finding.comparison, finding.left, finding.right, level) for finding in self.findings]


def judge(claim: Claim, table: Table) -> Verdict:
    """The verdict on a claim about the table."""
    measured = {key: number for key, cell in table.cells.items() if (number := _measured(table, key, cell))}
    published = {key: Number(cell.against.number) for key, cell in table.cells.items() if cell.against}
    return Verdict(claim, _findings(claim, measured), _findings(claim, published))


def _measured(table: Table, key: Key, cell: Cell) -> Number | None:
    """The number of a cell, or None. A diverged model counts as worse than every other."""
    value = table.column(key[2]).value
    if cell.state.startswith(DIVERGED):
        return Number(-value.better * math.inf)
    if not cell.seeds or (cell.worst and cell.partial):
        return None
    return Number(cell.mean, cell.numbers, value.exact)


def _findings(claim: Claim, numbers: Mapping[Key, Number]) -> tuple[Finding, ...]:
    findings = []
    for comparison in claim.comparisons:
        left, right = _number(comparison.left, numbers), _number(comparison.right, numbers)
        if left and right:
            findings.append(_finding(comparison, left, right))
    return tuple(findings)


def _number(side: Side, numbers: Mapping[Key, Number]) -> Number | None:
    if not side.keys:
        return Number(side.number, exact=True)
    compared = [numbers[key] for key in side.keys if key in numbers]
    if len(compared) < len(side.keys):
        return None
    return (min if side.extreme == "min" else max)(compared, key=lambda number: number.mean)


def _finding(comparison: Comparison, left: Number, right: Number, level: float = LEVEL) -> Finding:
    sign = 1 if comparison.relation.startswith(">") else -1
    margin = sign * (left.mean - right.mean - comparison.shift)
    return Finding(comparison, left, right, margin, _interval(comparison, left, right, sign, level))


def _interval(comparison: Comparison, left: Number, right: Number, sign: int, level: float) -> Interval | None:
    ours = left.seeds if comparison.left.keys else dict.fromkeys(right.seeds, left.mean)
    theirs = right.seeds if comparison.right.keys else dict.fromkeys(left.seeds, right.mean)
    return interval([sign * (ours[seed] - theirs[seed] - comparison.shift) for seed in ours if seed in theirs], level)
