"""Radii at which a node clips what it receives from its neighbours, for one node or for many at once."""

from collections.abc import Callable

import torch
from torch import Tensor

from robustfl_bench.numerics.clipping import clip_factors
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Aggregate, Updates

Radii = Callable[[Tensor, Tensor], Tensor]
"""Maps distances (..., n) and the weights of what is at them to radii (...,)."""

ROUNDING = 1e-9
"""Sums of weights that differ by less than this share are equal."""


def radius_beyond(distances: Tensor, weights: Tensor, mass: Tensor) -> Tensor:
    """The largest of the distances (..., n) beyond which the other weights are at least ``mass`` (...,); 0 if there is
    none."""
    ordered, weights = _by_distance(distances, weights)
    below = weights.cumsum(dim=-1)
    enough = below[..., -1:] - below >= (1 - ROUNDING) * mass[..., None]
    return torch.where(enough, ordered, 0).amax(dim=-1)


def radius_of_squares(distances: Tensor, weights: Tensor, mass: Tensor) -> Tensor:
    """The root (...,) of the weighted sum of the squared distances (..., n) over ``mass`` (...,).

    The sum leaves out the farthest, of weight ``mass``. The radius is infinite for a mass of 0.
    """
    ordered, weights = _by_distance(distances, weights)
    below = weights.cumsum(dim=-1)
    nearest = below <= (1 + ROUNDING) * (below[..., -1:] - mass[..., None])
    squares = (weights * nearest * ordered.square()).cumsum(dim=-1)[..., -1]
    return torch.where(mass > 0, (squares / mass).sqrt(), torch.inf)


def heaviest(distances: Tensor, weights: Tensor) -> Tensor:
    """The largest (...,) of the weights (..., n) of what is not at a distance of 0, as a node is from itself."""
    return torch.where(distances > 0, weights, 0).amax(dim=-1)


def clipped_sum(updates: Updates, radii: Radii) -> Aggregate:
    """The sum of the updates by their ``counts`` over the sum of these, each shortened to the radius of the round."""
    weights = updates.counts / updates.counts.sum()
    radius = radii(updates.norms, weights)
    return updates.combine(clip_factors(updates.norms, radius) * weights)


def clipped_sums(nodes: Neighbourhoods, radii: Radii) -> Tensor:
    """The sums (h, d) of ``clipped_sum`` at all nodes."""
    lengths, starts = nodes.sq_dists.sqrt(), torch.searchsorted(nodes.receiver, nodes.receiver)
    place = torch.arange(len(lengths), device=lengths.device) - starts + 1
    distances = lengths.new_zeros(len(nodes.own), 1 + int(place.max()))  # a node's own first; without weight at the end
    weights = torch.zeros_like(distances)
    weights[:, 0] = nodes.own_weights
    distances[nodes.receiver, place], weights[nodes.receiver, place] = lengths, nodes.weights
    radius = radii(distances, weights)[nodes.receiver]
    return nodes.combine(clip_factors(lengths, radius) * nodes.weights)


def _by_distance(distances: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    order = distances.argsort(dim=-1, stable=True)
    return distances.gather(-1, order), weights.gather(-1, order)
