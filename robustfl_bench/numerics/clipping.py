"""Clipping of updates, or of their differences from a moving vector, to a maximum length."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.numerics.gram_space import Array, length, sq_dists_to
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Aggregate, Updates


def clip_factors(lengths: Tensor, radius: Tensor | float) -> Tensor:
    """Factors (n,) that shorten vectors of ``lengths`` (n,) so that none is longer than ``radius``, () or (n,)."""
    if isinstance(radius, Tensor) or lengths.device.type != "cpu":
        return torch.where(lengths > radius, radius / lengths, 1.0)
    numbers = lengths.detach().numpy()
    longer, factors = numbers > radius, np.ones_like(numbers)
    with np.errstate(all="ignore"):  # rounded twice, as PyTorch divides a number by a tensor
        np.multiply(np.reciprocal(numbers), radius, out=factors, where=longer)
    return torch.from_numpy(factors)


def median_norm(norms: Tensor) -> float:
    """Median of the norms (n,); the mean of the two middle norms if their number is even."""
    ordered = norms.sort().values
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


@dataclass
class ClippingCentre:
    """A vector that moves towards the updates, each of which can move it no further than ``radius``.

    The vector begins at ``start`` (d,), or at 0. It is ``start`` plus a combination of the updates' differences from
    ``start``, with the coefficients ``moved`` (n,). The first ``step`` reads the updates once. Every later step
    costs n^2 operations, for any d, once the Gram matrix is computed.
    """

    updates: Updates
    start: Tensor | None
    radius: float

    def __post_init__(self) -> None:
        self.moved: Array = np.zeros(self.updates.n)

    @cached_property
    def _joint(self) -> Array:
        """Inner products (n + 1, n + 1) of the updates and ``start``."""
        n = self.updates.n
        if self.start is None:
            joint = np.zeros((n + 1, n + 1))
            joint[:n, :n] = self.updates.gram.cpu().numpy()
            return joint
        found: Array = self.updates.joint_gram(self.start[None]).cpu().numpy()
        return found

    @cached_property
    def gram(self) -> Array:
        """Inner products (n, n) of the updates' differences from ``start``."""
        products = self._joint[:-1, -1]
        relative: Array = self._joint[:-1, :-1] - products - products[:, None] + self._joint[-1, -1]
        return relative

    @property
    def cosines(self) -> Array:
        """Cosines (n,) between the updates and ``start``, 0 where either vector is zero."""
        lengths = np.sqrt(self._joint.diagonal().clip(min=0))
        apart = (lengths[:-1] > 0) & (lengths[-1] > 0)
        scaled = self._joint[:-1, -1] / (lengths[-1] or 1.0)
        found: Array = np.divide(scaled, lengths[:-1], out=np.zeros(self.updates.n), where=apart)
        return found

    def factors(self) -> Array:
        """Factors (n,) that shorten the updates' differences from the vector to at most the radius."""
        if self.moved.any():
            return _factors(np.sqrt(sq_dists_to(self.gram, self.moved)), self.radius)
        return _factors(np.sqrt(self.updates.sq_dists_from(self.start).cpu().numpy()), self.radius)

    def step(self, members: NDArray[np.intp]) -> None:
        """Move by the mean of the clipped differences between these clients' updates and the vector."""
        shares = np.zeros(len(self.moved))
        shares[members] = self.factors()[members] / len(members)
        self.moved = self.moved + shares - shares.sum() * self.moved

    def step_by_mass(self) -> None:
        """Move by the mean of the clipped differences of all clients, by their sample counts."""
        shares = self.factors() * (self.updates.counts / self.updates.counts.sum()).cpu().numpy()
        self.moved = self.moved + shares - shares.sum() * self.moved

    def step_to_mean(self, members: NDArray[np.intp]) -> None:
        """Move by the clipped difference between the mean of these clients' updates and the vector."""
        means = np.zeros(len(self.moved))
        means[members] = 1 / len(members)
        ahead = means - self.moved
        self.moved = self.moved + float(_factors(np.array(length(self.gram, ahead)), self.radius)) * ahead

    def aggregate(self) -> Aggregate:
        """The vector, with the updates' coefficients; the coefficient of ``start`` is 1 minus their sum."""
        weights = torch.from_numpy(self.moved).to(self.updates.device)
        aggregate = self.updates.combine(weights)
        if self.start is None:
            return aggregate
        return Aggregate(aggregate.vector + (1 - float(self.moved.sum())) * self.start, aggregate.weights)


def _factors(lengths: Array, radius: float) -> Array:
    factors: Array = np.divide(radius, lengths, out=np.ones_like(lengths), where=lengths > radius)
    return factors


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
