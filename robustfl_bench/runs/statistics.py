"""Intervals, tests and ranks, to tell differences between methods from noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95
"""Default confidence level of intervals and tests."""


@dataclass(frozen=True)
class Interval:
    """A mean, or a difference of means, with its confidence interval. ``n`` is the number of values or pairs."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def has_zero(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of methods over conditions, 1 being the best.

    Methods whose mean ranks differ by less than ``critical`` cannot be told apart. ``p`` is that of Friedman's test,
    whose null hypothesis is that all methods are alike.
    """

    mean: Mapping[str, float]
    conditions: int
    critical: float
    p: float


def interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Student's interval of the mean; None for fewer than two values. Values that are not finite leave it unbounded."""
    n = len(values)
    if n < 2:
        return None
    if not all(map(math.isfinite, values)):
        return Interval(sum(values), -math.inf, math.inf, n)
    mean = statistics.fmean(values)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    return _around(mean, error, n - 1, n, level)


def paired(first: Mapping[str, float], second: Mapping[str, float]) -> Interval | None:
    """The interval of the mean of ``first - second`` over the seeds that both have; None for fewer than two."""
    return interval([first[seed] - second[seed] for seed in first if seed in second])


def two_samples(
    first: tuple[float, float, int], second: tuple[float, float, int], level: float = LEVEL
) -> Interval | None:
    """Welch's interval of the difference of two means, each given as mean, sample sd and number of values.

    None unless both have at least two values.
    """
    (mean, sd, n), (other, other_sd, m) = first, second
    if min(n, m) < 2:
        return None
    own, others = sd**2 / n, other_sd**2 / m
    error = math.sqrt(own + others)
    freedom = error**4 / (own**2 / (n - 1) + others**2 / (m - 1)) if error else n + m - 2
    return _around(mean - other, error, freedom, min(n, m), level)


def indistinguishable(numbers: Mapping[str, Mapping[str, float]], better: int) -> set[str]:
    """The methods that cannot be told from the best by their paired differences; the best is among them.

    ``numbers`` are those of each method by seed; ``better`` is 1 where higher is better and -1 where lower is. The best
    is the one of the best mean. With fewer than two shared seeds only an equal mean counts as alike. Intervals are not
    widened for the number of methods.
    """
    means = {name: statistics.fmean(by_seed.values()) for name, by_seed in numbers.items() if by_seed}
    if not means:
        return set()
    top = max(means, key=lambda name: better * means[name])
    alike = set()
    for name in means:
        difference = paired(numbers[top], numbers[name])
        if means[name] == means[top] or (difference is not None and difference.has_zero):
            alike.add(name)
    return alike


def ranks(numbers: Mapping[str, Sequence[float]], better: int) -> Ranks:
    """Mean ranks of methods from their numbers, one for each condition, in the same order; equal numbers share ranks.

    The critical difference is that of Nemenyi's test (Demsar, JMLR 7, 2006, section 3.2.2). Needs two methods and two
    conditions.
    """
    from scipy import stats

    table = [[-better * number for number in column] for column in zip(*numbers.values(), strict=True)]
    ranked = [stats.rankdata(column) for column in table]
    k, conditions = len(numbers), len(ranked)
    mean = {name: float(statistics.fmean(row[place] for row in ranked)) for place, name in enumerate(numbers)}
    studentized = float(stats.studentized_range.ppf(LEVEL, k, math.inf)) / math.sqrt(2)
    critical = studentized * math.sqrt(k * (k + 1) / (6 * conditions))
    p = math.nan
    if k > 2 and any(len(set(column)) > 1 for column in table):
        p = float(stats.friedmanchisquare(*zip(*table, strict=True)).pvalue)
    return Ranks(mean, conditions, critical, p)


def _around(mean: float, error: float, freedom: float, n: int, level: float) -> Interval:
    half = _quantile(freedom, level) * error
    return Interval(mean, mean - half, mean + half, n)


@cache
def _quantile(freedom: float, level: float) -> float:
    """How many standard errors Student's interval reaches to either side."""
    from scipy.special import stdtrit  # the quantile of scipy.stats.t, which takes a second to import

    return float(stdtrit(freedom, (1 + level) / 2))
