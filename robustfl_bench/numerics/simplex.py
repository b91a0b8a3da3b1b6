"""Weights on the simplex."""

import numpy as np

from robustfl_bench.numerics.gram_space import Array


def penalised_weights(losses: Array, counts: Array, regularization: float) -> Array:
    """The weights (N,) that minimise ``sum a L + regularization / 2 sum a^2 / counts`` over the simplex.

    Of the clients by rising loss, the p best take part: as many as have a loss below the level ``(sum m L +
    regularization) / sum m`` of those up to them; weights are ``m (level - L) / regularization``. A loss that is not
    finite means no weight. (Theorem 4.3 of Li, Ngai, Ye, Voigt, ACM TECS 2022.)
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
