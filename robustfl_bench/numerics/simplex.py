"""Weights on the simplex."""

import numpy as np

from robustfl_bench.numerics.gram_space import Array


def penalised_weights(losses: Array, counts: Array, regularization: float) -> Array:
    """The weights a (N,) that minimise ``sum a L + regularization / 2 sum a^2 / m`` over the simplex.

    L are the losses and m the counts. The p clients with the lowest losses take part, up to the last whose loss is at
    most the level ``(sum m L + regularization) / sum m`` of the clients up to it. With the level of the last one, their
    weights are ``m (level - L) / regularization``. A client whose loss is not finite gets weight 0. (Theorem 4.3 of Li,
    Ngai, Ye, Voigt, ACM TECS 2022.)
    """
    known = np.flatnonzero(np.isfinite(losses))
    weights = np.zeros(len(losses))
    if not len(known):
        return weights
    order = known[np.argsort(losses[known], kind="stable")]
    above, m = losses[order] - losses[order[0]], counts[order]
    levels = (np.cumsum(m * above) + regularization) / np.cumsum(m)
    worse = np.flatnonzero(levels < above)
    p = worse[0] if len(worse) else len(order)
    weights[order[:p]] = m[:p] * (levels[p - 1] - above[:p]) / regularization
    return weights
