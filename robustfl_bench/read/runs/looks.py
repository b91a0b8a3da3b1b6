"""Looks at data that grow: the level of each test if the same question is asked again with more seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from robustfl_bench.read.runs.statistics import LEVEL


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
