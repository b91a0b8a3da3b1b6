"""Clipping of updates, or of their differences from a moving vector, to a maximum length."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.numerics.gram_space import Array, length, sq_dists_to
from robustfl_bench.numerics.updates import Aggregate, Updates


def clip_factors(lengths: Tensor, radius: Tensor | float) -> Tensor:
    """Factors (n,) that shorten vectors of ``lengths`` (n,) so that none is longer than ``radius``, () or (n,)."""
    return torch.where(lengths > radius, radius / lengths, 1.0)


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
