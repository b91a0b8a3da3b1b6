"""Bounds of two coefficients of robustness, proven from above and from below.

A rule F is (f, kappa)-robust (Allouah et al., AISTATS 2023, https://arxiv.org/abs/2302.01772, Definition 2) if for all
vectors x_1 .. x_n and every set S of n - f of them, ``|F(x) - mean_S|^2 <= kappa / |S| * sum of |x_i - mean_S|^2 over
S``. It is (f, lambda)-resilient (Farhadkhani et al., ICML 2022, https://arxiv.org/abs/2205.12173) if ``|F(x) - mean_S|
<= lambda * max |x_i - x_j| over S``.

In the proofs, m = n - f, the variance of S is the right-hand side without kappa, and r = f / (n - 2f). Two facts recur.
A part of S with the share p has a mean whose squared distance from mean_S is at most (1 - p) / p times the variance;
p >= (n - 2f) / m for what S shares with any other set of m vectors, so that (1 - p) / p <= r. And where a share p of
the real numbers of S is at least t, t - mean_S is bounded in the same way (Cantelli). A bound without a source is
proved here.
"""

import math
from collections.abc import Sequence

from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.aggregators.caf import Caf
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.geomed import GeoMed
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.mda import Mda
from robustfl_bench.parts.aggregators.meamed import MeaMed
from robustfl_bench.parts.aggregators.smea import Smea
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.pre_aggregations.arc import Arc
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing
from robustfl_bench.parts.pre_aggregations.chain import Chain
from robustfl_bench.parts.pre_aggregations.nnm import Nnm


def least(n: int, f: int) -> float:
    """The least kappa that a rule of the updates alone can have, f / (n - 2f): two sets S can share n - 2f updates."""
    return f / (n - 2 * f)


def proven(rule: Aggregator, pre_aggregation: PreAggregation | None, n: int, f: int) -> float | None:
    """An upper bound of kappa for n clients with f attackers, for which the rule is made; None where none is known."""
    return _behind(_steps(pre_aggregation), rule, n, f)


def proven_resilience(rule: Aggregator, pre_aggregation: PreAggregation | None, n: int, f: int) -> float | None:
    """An upper bound of lambda; None where none is known. No rule has less than f / (n - f).

    From kappa: the variance is at most (m - 1) / (2m) times the squared diameter, so that lambda is at most
    ``sqrt(kappa (m - 1) / (2m))``. MDA has 2f / m (Farhadkhani et al.): its set differs from S by at most f
    vectors, which pair up across a shared one, over at most the two diameters. The geometric median is no farther from
    a point than ``m / sqrt(n (n - 2f))`` times the distance within which all but f vectors are (Minsker, Bernoulli
    2015, Lemma 2.1), and mean_S has all of S within (m - 1) / m diameters.
    """
    kappa, m, bounds = proven(rule, pre_aggregation, n, f), n - f, list[float]()
    if kappa is not None:
        bounds.append(math.sqrt(kappa * (m - 1) / (2 * m)))
    if 2 * f < n and not _steps(pre_aggregation):
        if isinstance(rule, Mda) and rule.num_byzantine == f:
            bounds.append(2 * f / m)
        if isinstance(rule, GeoMed):
            bounds.append((m - 1) / math.sqrt(n * (n - 2 * f)))
    return min(bounds, default=None)


def _steps(pre_aggregation: PreAggregation | None) -> Sequence[PreAggregation]:
    if isinstance(pre_aggregation, Chain):
        return pre_aggregation.steps
    return () if pre_aggregation is None else (pre_aggregation,)


def _behind(steps: Sequence[PreAggregation], rule: Aggregator, n: int, f: int) -> float | None:
    """A bound of kappa for the rule behind these pre-aggregations.

    - NNM: 8f / m * (kappa + 1) (Allouah et al., AISTATS 2023, Lemma 1).
    - ARC clips at most k = floor(2f m / n) vectors. If it clips c of S, their variance falls by at least (m - c) / c
      times the squared shift of their mean, because the mean of clipped vectors is no longer than the radius. The
      inequality ``|a + b|^2 <= (1 + t) |a|^2 + (1 + 1/t) |b|^2`` then gives kappa + c / (m - c), at most kappa + k /
      (m - k). Without rounding down, this is kappa + 2f / (n - 2f) (Allouah et al., ICLR 2025).
    - Bucketing into n / s buckets, whatever their order: at least n / s - f of them hold vectors of S only. Their mean
      is that of n - s f vectors of S, their variance no larger. The same inequality gives (m kappa + (s - 1) f) / (n -
      s f), for the kappa of n / s vectors.
    """
    if not 0 <= 2 * f < n:
        return None
    if not steps:
        return _alone(rule, n, f)
    step, m = steps[0], n - f
    kappa = _behind(steps[1:], rule, step.num_made(n), f)
    if kappa is None:
        return None
    if step == Nnm(f):
        return 8 * f / m * (kappa + 1)
    if step == Arc(f):
        clipped = 2 * f * m // n
        return kappa + clipped / (m - clipped)
    if isinstance(step, Bucketing) and n % step.bucket_size == 0:
        return (m * kappa + (step.bucket_size - 1) * f) / (n - step.bucket_size * f)
    return None


def _alone(rule: Aggregator, n: int, f: int) -> float | None:
    """A bound of kappa for the rule itself, n > 2f.

    - Medians and trimmed mean act by coordinate, where kappa is that of one coordinate. The median of n numbers has at
      least half of them, and (n + 1) // 2 - f of S, on each of its sides. The trimmed mean grows with every number, so
      that attackers do most at infinity; what is left is the mean of the n - 2f largest or smallest of S. Both are
      bounded by Cantelli's inequality; for the trimmed mean, and the median of an odd number, this is their kappa.
    - MeaMed: of each coordinate, it takes no more than f numbers outside S in the place of as many of S, and these are
      farther from the median. Thus kappa is at most 4f / m * (1 + the kappa of the median).
    - Geometric median: 4 (m / (n - 2f))^2 (Allouah et al., AISTATS 2023, Table 1).
    - Krum: the table has 6m / (n - 2f) for sums over the m nearest, the update included. Sums over the n - f - 2
      nearest others, as in the paper of Krum and here, reach one honest client fewer; the same proof gives 6m / (n -
      2f - 1).
    - SMEA: in no direction has its set more than the largest variance of S. Both means are within sqrt(r) standard
      deviations of the mean of what the sets share: 4r (as in Allouah et al., ICML 2023, section 5.1).
    - MDA: its set has at most the diameter of S, which is at most sqrt(2m) standard deviations. The f vectors that it
      may have outside S are that near to the mean of what the sets share, and mean_S is within sqrt(r) of it: in all,
      ``f sqrt(2 / m) + sqrt(r)`` standard deviations.
    - CAF: see ``_filtered``.
    """
    m, r = n - f, f / (n - 2 * f)
    median = _cantelli((n + 1) // 2 - f, m)
    if isinstance(rule, CooMed):
        return median
    if isinstance(rule, GeoMed):
        return 4 * (1 + r) ** 2
    if getattr(rule, "num_byzantine", None) != f:
        return None
    if isinstance(rule, TrMean):
        return _cantelli(n - 2 * f, m)
    if isinstance(rule, MeaMed):
        return 4 * f / m * (1 + median)
    if rule == Krum(f) and n > 2 * f + 1:
        return 6 * m / (n - 2 * f - 1)
    if isinstance(rule, Smea):
        return 4 * r
    if isinstance(rule, Mda):
        return (f * math.sqrt(2 / m) + math.sqrt(r)) ** 2
    return _filtered(n, f) if isinstance(rule, Caf) else None


def _cantelli(some: int, of: int) -> float:
    """The squared distance, in variances, from the mean of ``of`` numbers to one that ``some`` of them reach."""
    return (of - some) / some


def _filtered(n: int, f: int) -> float:
    """A bound of kappa for CAF.

    Let v be the variance of S in its top direction, q = m / (n - 2f) = 1 + r, and C the sum of trust before a pass, T
    the sum of trusted deviations.

    1. As long as S has lost no more trust than the f others, S has at most m v + f / m times the others' share of T. If
       T > 2 q m v, this is less than half of T, and S again loses less than the others.
    2. Trust falls to n - 2f only if S has lost as much as the others. So some pass has T <= 2 q m v and S has lost no
       more than the others; call it P. Its covariance, of norm T / C, is at most 2 q^2 u v, with u = (n - 2f) / C.
    3. In P and before, the trusted distribution differs from S by at most the share f / m, so that its mean is within
       ``sqrt(r) (sqrt(v) + sqrt(T / C))`` of mean_S. A later pass has only part of P's trust, at least n - 2f of C; its
       mean is within ``sqrt(T / C (1 / u - 1))`` of P's.

    The pass of least norm that CAF selects is one of these. In units of sqrt(v), its mean is off by at most ``sqrt(r) +
    sqrt(2) q (sqrt(r u) + sqrt(1 - u))``, which is largest at u = f / m, or at (n - 2f) / n, the least u.
    """
    m, r = n - f, f / (n - 2 * f)
    u = max(f / m, (n - 2 * f) / n)
    return (math.sqrt(r) + math.sqrt(2) * (1 + r) * (math.sqrt(r * u) + math.sqrt(1 - u))) ** 2
