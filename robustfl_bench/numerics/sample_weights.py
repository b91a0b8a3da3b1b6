"""Clients that count by their samples: caps on their masses, and statistics of weighted coordinates.

A client of mass k counts as k clients of mass 1 that send the same.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.updates import SORTED, Aggregate, Updates, by_columns


def largest_masses(masses: Tensor, count: int) -> float:
    """The most that ``count`` of the masses (n,) add up to."""
    return float(masses.sort(descending=True).values[:count].sum())


def capped(masses: Tensor, count: int, share: float) -> Tensor:
    """The masses (n,), cut at the largest cap at which the ``count`` largest have at most ``share`` of the sum of all.

    If equal masses have more than that, the masses become equal. Portnoy, Tirosh, Hendler, "Towards federated learning
    with Byzantine-robust client weighting", arXiv 2004.04986, section 4, who call this truncation.
    """
    ordered, n = masses.sort().values, len(masses)
    if count == 0 or largest_masses(masses, count) <= share * float(masses.sum()):
        return masses
    if count >= share * n:
        return torch.full_like(masses, float(ordered[0]))
    # With the k largest of them cut at c, the sum is below[n - k] + k c, and the count largest have count * c of it, or
    # k c and what is beside these if k is less.
    below = torch.cat([ordered.new_zeros(1), ordered.cumsum(0)])
    for k in range(1, n + 1):
        cut, beside = min(k, count), float(below[n - k] - below[n - max(k, count)])
        gap = cut - share * k
        cap = (share * float(below[n - k]) - beside) / gap if gap > 0 else np.inf
        if k == n or cap > float(ordered[n - k - 1]):
            return masses.clamp(max=cap)
    raise AssertionError("the loop ends at k = n")


def weighted_median(values: Tensor, masses: Tensor) -> float:
    """The median of values (n,) with masses (n,); halfway between two values if either has half of the mass."""
    order = values.argsort()
    lower, upper = _middle(masses[order].cumsum(0)[:, None])
    return float((values[order][lower] + values[order][upper]) / 2)


def trimmed_mean(updates: Updates, trimmed: float) -> Tensor:
    """The mean (d,) of every coordinate without the mass ``trimmed`` at each end; the median if nothing would be left.

    A value at the border counts by the part of its mass that is left. ``updates.counts`` are the masses.
    """
    total = float(updates.counts.sum())
    if trimmed >= total / 2:
        return median(updates)

    def mean(values: Tensor, ends: Tensor) -> Tensor:
        inside = ends.clamp(trimmed, total - trimmed)
        kept = inside.diff(dim=0, prepend=inside.new_full((1, inside.shape[1]), trimmed))
        return (kept * values.where(kept > 0, 0).double()).sum(dim=0) / (total - 2 * trimmed)

    return _by_sorted(updates, mean)


def median(updates: Updates, lower_only: bool = False) -> Tensor:
    """The weighted median (d,) of every coordinate; of two middle values their mean, or the ``lower_only``."""

    def middle(values: Tensor, ends: Tensor) -> Tensor:
        lower, upper = (values.gather(0, place[None])[0].double() for place in _middle(ends))
        return lower if lower_only else lower / 2 + upper / 2

    return _by_sorted(updates, middle)


def mean_of_nearest(updates: Updates, left_out: float, lower_only: bool = False) -> Tensor:
    """The mean (d,) of every coordinate without the mass ``left_out`` that is farthest from its median.

    Of two values at the same distance, the larger is left out first; a value at the border counts by the part of its
    mass that is left. ``updates.counts`` are the masses.
    """
    kept = float(updates.counts.sum()) - left_out

    def mean(values: Tensor, ends: Tensor) -> Tensor:
        lower, upper = (values.gather(0, place[None]).double() for place in _middle(ends))
        centre = lower if lower_only else lower / 2 + upper / 2
        order = (values - centre).abs().sort(dim=0, stable=True).indices
        masses = ends.diff(dim=0, prepend=ends.new_zeros(1, ends.shape[1]))
        inside = masses.gather(0, order).cumsum(dim=0).clamp(max=kept)
        inside = inside.diff(dim=0, prepend=inside.new_zeros(1, inside.shape[1]))
        nearest = values.gather(0, order)
        return (inside * nearest.where(inside > 0, 0).double()).sum(dim=0) / kept

    return _by_sorted(updates, mean)


def weighted_votes(updates: Updates) -> Tensor:
    """The masses of the clients whose coordinate is positive less those of the negative ones, (d,)."""
    masses = updates.counts
    return by_columns(lambda block: masses @ block.sign().double(), updates.columns)


def reweighted(aggregate: Aggregate, updates: Updates) -> Aggregate:
    """The ``aggregate`` of a rule that averages the clients it selects, which may be clipped, now by their masses."""
    assert aggregate.weights is not None
    weights = aggregate.weights
    selected = weights if aggregate.accepted is None else aggregate.accepted.to(weights)
    mass = (selected @ updates.counts) / selected.sum()
    return replace(updates.combine(weights * updates.counts / mass, aggregate.accepted), memory=aggregate.memory)


def _middle(ends: Tensor) -> tuple[Tensor, Tensor]:
    """Of masses added up along the first dimension, (n, ...), the first places to reach half and to exceed it."""
    half = ends[-1] / 2
    return (ends < half).sum(dim=0), (ends <= half).sum(dim=0).clamp(max=len(ends) - 1)


def _by_sorted(updates: Updates, reduce: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """``reduce`` of blocks of sorted values (n, k) and the masses (n, k) up to and with each, as a vector (d,)."""

    def work(block: Tensor) -> Tensor:
        values, order = block.sort(dim=0, stable=True)
        return reduce(values, updates.counts[order].cumsum(dim=0))

    return by_columns(work, updates.columns, max(1, SORTED // updates.n))


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
