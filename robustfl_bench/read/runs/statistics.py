"""Intervals, tests and ranks, to tell differences between methods from noise, also where the same question is asked
again with more seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from robustfl_bench.base.late import np

Tested = TypeVar("Tested", bound=Hashable)

LEVEL = 0.95
"""Default confidence level of intervals and tests."""

Statistic = Callable[["np.ndarray"], "np.ndarray"]
"""A statistic of means (draws, conditions): the coefficients of the means in it, of the same shape."""

COMPARED = 3
"""The fewest seeds that are compared: Student's factor for two is 13."""

RESAMPLES = 2000
"""Number of draws of a bootstrap."""


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
class Estimate:
    """A statistic of ``n`` seeds and its standard error, which is nan for a single seed. ``bias`` is by how much so few
    seeds move the statistic, which tests take off."""

    value: float
    error: float
    n: int
    bias: float = 0.0

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Student's interval with n - 1 degrees of freedom; None for a single seed."""
        return _around(self.value, self.error, self.n - 1, self.n, level) if self.n > 1 else None


UNKNOWN = Estimate(math.nan, math.nan, 0)
"""The estimate of a statistic without seeds."""


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


def interval(values: Sequence[float], level: float = LEVEL, strata: int = 1) -> Interval | None:
    """Student's interval of the mean; None for fewer than two values. Values that are not finite leave it unbounded.

    With ``strata``, the values are those of as many conditions of equal size, one condition after the other: only what
    they vary within a condition counts (a stratified sample, Cochran 1977, section 5.3, with one variance for all).
    """
    n = len(values)
    if n < 2 * strata:
        return None
    if not all(map(math.isfinite, values)):
        return Interval(sum(values), -math.inf, math.inf, n)
    size = n // strata
    within = [values[first : first + size] for first in range(0, n, size)]
    squares = math.fsum((value - statistics.fmean(part)) ** 2 for part in within for value in part)
    return _around(statistics.fmean(values), math.sqrt(squares / (n - strata) / n), n - strata, n, level)


def paired(first: Mapping[str, float], second: Mapping[str, float]) -> Interval | None:
    """The interval of the mean of ``first - second`` over the seeds that both have; None for fewer than two."""
    return interval([first[seed] - second[seed] for seed in first if seed in second])


def two_samples(first: tuple[float, float, int], second: tuple[float, float, int]) -> Interval | None:
    """Welch's interval of the difference of two means, each given as mean, sample sd and number of values.

    None unless both have at least two values.
    """
    if min(first[2], second[2]) < 2:
        return None
    return difference(*(Estimate(mean, sd / math.sqrt(n), n) for mean, sd, n in (first, second)))


def indistinguishable(numbers: Mapping[str, Mapping[str, float]], better: int) -> set[str]:
    """The methods that cannot be told from the best by their paired differences; the best is among them.

    ``numbers`` are those of each method by seed; ``better`` is 1 where higher is better and -1 where lower is. The best
    is the one of the best mean of those with the most seeds. Only methods with all of its seeds are compared, so that
    none is among the best because it was hardly run; with fewer than COMPARED seeds, only an equal mean counts as
    alike. Intervals are not widened for the number of methods.
    """
    most = max(map(len, numbers.values()), default=0)
    means = {name: statistics.fmean(by_seed.values()) for name, by_seed in numbers.items() if len(by_seed) == most > 0}
    if not means:
        return set()
    top = max(means, key=lambda name: better * means[name])
    alike = {name for name in means if means[name] == means[top]}
    same_seeds = [name for name in means if most >= COMPARED and numbers[name].keys() == numbers[top].keys()]
    differences = {name: paired(numbers[top], numbers[name]) for name in same_seeds}
    return alike | {name for name, of in differences.items() if of is not None and of.has_zero}


def bootstrapped(numbers: np.ndarray, chosen: Statistic, floor: float = -math.inf) -> Estimate:
    """A statistic of the means over seeds of ``numbers`` (conditions, seeds), at least ``floor``, with its standard
    error and its bias.

    The error is Student's, times the ``_reach`` of the bootstrap beyond that of normal numbers, at most _MOST, so that
    intervals and tests survive skewed seeds; of fewer than _SKEWED seeds, times _UNSEEN. The bias is that of RESAMPLES
    draws of the seeds with replacement.
    """
    n = numbers.shape[1]
    by_seed = (chosen(numbers.mean(axis=1)[None]) @ numbers)[0]
    value = float(np.fmax(by_seed.mean(), floor))
    if n < 2:
        return Estimate(value, math.nan, n)
    if value == floor:  # what is below it does not vary
        by_seed = np.maximum(by_seed, floor)
    error, bias = float(by_seed.std(ddof=1)) / math.sqrt(n), 0.0
    if error > _ROUNDING:
        drawn = chosen(_shares(n) @ numbers.T) @ numbers
        bias = value - float(np.fmax(2 * by_seed.mean() - (_shares(n) * drawn).sum(axis=1).mean(), floor))
        if value != floor:
            error *= min(max(_reach(by_seed, drawn) / _usual_reach(n), 1.0), _MOST) if n >= _SKEWED else _UNSEEN
    return Estimate(value, error, n, bias)


def least(means: np.ndarray) -> np.ndarray:
    """The coefficients of the statistic that is the least of the means."""
    return np.asarray(means.argmin(axis=1)[:, None] == np.arange(means.shape[1]), dtype=float)


_SKEWED = 5  # seeds from which on a bootstrap shows their skewness
_MOST = 3.0  # beyond which draws of the same few seeds decide
_UNSEEN = 1.5  # what keeps the level of tests at three seeds, simulated on those of the arena
_ROUNDING = 1e-9  # points
_NORMAL = 101  # samples of normal numbers


def _reach(by_seed: np.ndarray, drawn: np.ndarray) -> float:
    """How many of its own standard errors a draw of the bootstrap is from the mean over seeds, but for the farthest 5%
    of the draws (the symmetric bootstrap-t, Hall, Annals of Statistics 16, 1988). ``drawn`` is what each draw averages:
    (draws, seeds). Draws of a single seed have no error and count as near."""
    shares = _shares(n := len(by_seed))
    means = (shares * drawn).sum(axis=1)
    squares = (shares * drawn**2).sum(axis=1) - means**2
    errors = np.sqrt(np.maximum(squares, 0) / (n - 1))
    studentized = abs(means - by_seed.mean()) / np.maximum(errors, _ROUNDING)
    studentized[shares.max(axis=1) == 1] = 0.0
    return float(np.partition(studentized, place := int(LEVEL * len(studentized)))[place])


@cache
def _usual_reach(n: int) -> float:
    """The median of ``_reach`` for n seeds of normal numbers."""
    from robustfl_bench.base import seeding  # late: it imports NumPy

    samples = seeding.generator(0, "normal seeds", n).normal(size=(_NORMAL, n))
    return statistics.median(_reach(of, np.broadcast_to(of, (RESAMPLES, n))) for of in samples)


@cache
def _shares(n: int) -> np.ndarray:
    """How often each draw has each of n seeds, as shares: (RESAMPLES, n)."""
    from robustfl_bench.base import seeding  # late: it imports NumPy

    return seeding.generator(0, "bootstrap", n).multinomial(n, [1 / n] * n, size=RESAMPLES) / n


def leaders(estimates: Mapping[str, Estimate], level: float = LEVEL) -> list[str]:
    """The methods that cannot be told from the one of the largest value, which comes first.

    Each of the others is compared with it by a one-sided test for different variances (Welch). As any of the methods
    could have come first by chance, p-values are multiplied by their number, and again by the number of those that are
    left once some are left out, until none is: a method that is as good as the best is left out in at most a share of
    ``1 - level`` of cases (comparisons with the best, Hsu, Annals of Statistics 9, 1981; by Bonferroni, in steps). With
    a single seed, nothing can be told apart.
    """
    ordered = sorted(estimates, key=lambda name: -estimates[name].value)
    if not ordered:
        return []
    chances = {name: _chance(estimates[ordered[0]], estimates[name]) for name in ordered}
    while len(left := [name for name in ordered if len(ordered) * chances[name] > 1 - level]) < len(ordered):
        ordered = left
    return ordered


def chance_if_not_above(values: Sequence[float]) -> float:
    """The chance of so large a mean of ``values`` if its expectation is 0 or less, by Student's one-sided test; 1 for
    fewer than two values."""
    from scipy.special import stdtr

    n = len(values)
    if n < 2 or not all(map(math.isfinite, values)):
        return 1.0
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(n)
    return float(stdtr(n - 1, -mean / error)) if error else float(mean <= 0)


def rejected(chances: Mapping[Tested, float], level: float = LEVEL) -> set[Tested]:
    """The hypotheses, with their p-values, that the procedure of Benjamini and Hochberg (1995) rejects: at most a share
    of ``1 - level`` of them is expected to be true."""
    ascending = sorted(chances, key=lambda name: chances[name])
    passed = [place for place, name in enumerate(ascending, 1) if chances[name] <= (1 - level) * place / len(chances)]
    return set(ascending[: max(passed, default=0)])


def chance_if_equal(first: Estimate, second: Estimate) -> float:
    """The chance of so large a difference, in either direction, between equal methods (Welch); 1 where their biases
    reverse the order."""
    larger, smaller = (first, second) if first.value >= second.value else (second, first)
    return min(1.0, 2 * _chance(larger, smaller))


def chance_if_apart(first: Estimate, second: Estimate, margin: float) -> float:
    """The chance of so small a difference between methods that are ``margin`` or more apart: the larger of two
    one-sided tests (Schuirmann 1987). What rejects it shows that the methods are equal within the margin."""
    larger, smaller = sorted((first, second), key=lambda of: of.bias - of.value)
    return _chance(replace(smaller, value=smaller.value + margin), larger)


def difference(first: Estimate, second: Estimate) -> Interval | None:
    """Welch's interval of ``first - second``; None unless both have at least two seeds."""
    n = min(first.n, second.n)
    if n < 2:
        return None
    error = math.hypot(first.error, second.error)
    return _around(first.value - second.value, error, _freedom(first, second), n, LEVEL)


def _chance(larger: Estimate, smaller: Estimate) -> float:
    """The chance of so large a difference between equal methods, at least a half if ``larger`` is not; 1 where a
    standard error is unknown. Biases are taken off."""
    from scipy.special import stdtr

    if larger.value == smaller.value or min(larger.n, smaller.n) < 2:
        return 1.0
    above, error = larger.value - larger.bias - smaller.value + smaller.bias, math.hypot(larger.error, smaller.error)
    if error == 0:
        return float(above < 0)
    return float(stdtr(_freedom(larger, smaller), -above / error))


def _freedom(first: Estimate, second: Estimate) -> float:
    """The degrees of freedom of a difference (Welch and Satterthwaite)."""
    of, other = first.error**2, second.error**2
    if of + other == 0:
        return first.n + second.n - 2
    return (of + other) ** 2 / (of**2 / (first.n - 1) + other**2 / (second.n - 1))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation; nan if one of them is constant."""
    return float(rank_correlations(np.array([[first, second]]))[0])


def rank_correlations(pairs: np.ndarray) -> np.ndarray:
    """Spearman's rank correlations (m,) of m pairs (m, 2, n) of n numbers; nan where one of a pair is constant."""
    from scipy.stats import rankdata

    centred = rankdata(pairs, axis=2) - (pairs.shape[2] + 1) / 2
    first, second = centred[:, 0], centred[:, 1]
    with np.errstate(invalid="ignore"):
        shared = (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return np.asarray(shared)


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


@cache
def level_at_each(looks: Sequence[int]) -> float:
    """The level at which each look must test, so that all of them together keep LEVEL; a tuple of the numbers of
    seeds at the looks, ascending.

    The same level at each (Pocock, Biometrika 64, 1977, section 2), for the sizes at hand: the means at n and m > n
    seeds of the same draws correlate by sqrt(n / m). With one look it is LEVEL.

    Student's statistics of few seeds correlate less than these means, so that intervals of normal numbers keep 94.6% in
    place of 95% over looks at 3 and 5 seeds, and 94.9% over 25, 50 and 100. Half of the rest lies on either side, and
    a verdict can err on one side only.
    """
    if len(looks) == 1:
        return LEVEL
    from scipy.optimize import brentq
    from scipy.special import ndtr
    from scipy.stats import multivariate_normal

    zeros = [0.0] * len(looks)
    shared = [[math.sqrt(min(n, m) / max(n, m)) for m in looks] for n in looks]

    def excess(bound: float) -> float:
        inside = multivariate_normal.cdf(
            [bound] * len(looks), zeros, shared, lower_limit=[-bound] * len(looks), maxpts=10**6
        )
        return float(inside) - LEVEL

    bound = brentq(excess, 1.0, 6.0, xtol=1e-4)
    return round(float(2 * ndtr(bound) - 1), 4)
