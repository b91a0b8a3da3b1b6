"""Proven bounds of (f, kappa)-robustness (Allouah et al., AISTATS 2023, https://arxiv.org/abs/2302.01772).

A rule F is (f, kappa)-robust (Definition 2 there) if for all vectors x_1 .. x_n and every set S of n - f of them,
``|F(x) - mean_S|^2 <= kappa / |S| * sum of |x_i - mean_S|^2 over S``.
"""

from robustfl_bench.aggregators.base import Aggregator
from robustfl_bench.aggregators.coomed import CooMed
from robustfl_bench.aggregators.geomed import GeoMed
from robustfl_bench.aggregators.krum import Krum
from robustfl_bench.aggregators.trmean import TrMean
from robustfl_bench.pre_aggregations.base import PreAggregation
from robustfl_bench.pre_aggregations.nnm import Nnm


def least(n: int, f: int) -> float:
    """The least kappa that a rule of the updates alone can have, f / (n - 2f): two sets S can share n - 2f updates."""
    return f / (n - 2 * f)


def proven(rule: Aggregator, pre_aggregation: PreAggregation | None, n: int, f: int) -> float | None:
    """An upper bound of kappa for n clients with f attackers; None where none is known.

    Medians and trimmed mean: Allouah et al., Table 1. Krum: the table has 6 (n - f) / (n - 2f) for sums over the n - f
    nearest, the update included. Sums over the n - f - 2 nearest others, as in the paper of Krum and here, reach one
    honest client fewer; the same proof then gives 6 (n - f) / (n - 2f - 1). NNM in front: 8f / (n - f) * (kappa + 1)
    (their Lemma 1).
    """
    if not 0 <= 2 * f < n:
        return None
    share = (n - f) / (n - 2 * f)  # 1 + f / (n - 2f)
    bound: float | None = None
    if isinstance(rule, CooMed | GeoMed):
        bound = 4 * share**2
    elif isinstance(rule, TrMean) and rule.num_byzantine == f:
        bound = 6 * f / (n - 2 * f) * share
    elif isinstance(rule, Krum) and rule == Krum(f) and n > 2 * f + 1:
        bound = 6 * (n - f) / (n - 2 * f - 1)
    if bound is None or pre_aggregation is None:
        return bound
    return 8 * f / (n - f) * (bound + 1) if pre_aggregation == Nnm(f) else None


def exact(rule: Aggregator, n: int, f: int) -> float | None:
    """The exact least kappa of a rule; None if it is not known.

    Of rules that act by coordinate it is that of one coordinate. There both rules grow with each of their inputs, so
    that attackers do most at infinity. What is left is the mean of the largest honest values, or one of them. How far
    that lies from the mean of all is limited by the share p of the honest clients that have at least this value:
    (1 - p) / p times the variance (Cantelli). Trimmed mean: p = (n - 2f) / (n - f), so that it is the best rule. Median
    of an odd number: p = (n - 2f + 1) / (2n - 2f).
    """
    if isinstance(rule, TrMean) and rule.num_byzantine == f:
        return least(n, f)
    if isinstance(rule, CooMed) and n % 2:
        return (n - 1) / (n - 2 * f + 1)
    return None
