"""Updates that look honest in the statistics by which rules judge, and move along a wish (ours).

Each disguise copies one kind of statistic of the honest updates: lengths (of layers too), cosines, the distribution of
every coordinate or of all, signs and the margins of votes, distances and clusters, or the spectrum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from robustfl_bench.parts.attacks.base import AttackView

TINY = 1e-30
LEAST = 0.05
"""The strength near which others than 0 are tried."""


@dataclass(frozen=True)
class Stage:
    """A round in which attackers would move the aggregate along the ``wish`` (d,), a vector of any length.

    ``layers`` are the numbers of parameters of the layers, in order; ``answer`` (d,) is an aggregate of the rule.
    """

    view: AttackView
    wish: Tensor
    layers: tuple[int, ...]
    answer: Tensor

    @cached_property
    def mean(self) -> Tensor:
        return self.view.mean

    @cached_property
    def matrix(self) -> Tensor:
        """The honest updates (h, d)."""
        return self.view.honest.matrix

    @cached_property
    def towards(self) -> Tensor:
        """The wish at length 1, (d,)."""
        return unit(self.wish)

    @cached_property
    def length(self) -> float:
        """The median length of the honest updates."""
        return float(self.view.honest.norms.median())

    @cached_property
    def sides(self) -> Tensor:
        """The sign of every coordinate of the wish, (d,)."""
        return self.wish.sign()

    @cached_property
    def ranked(self) -> Tensor:
        """The honest values of every coordinate, those farthest along the wish first, (h, d)."""
        return (self.matrix * self.sides).sort(dim=0, descending=True).values * self.sides

    @cached_property
    def deviations(self) -> Tensor:
        """What the honest updates differ from their mean, (h, d)."""
        return self.matrix - self.mean

    @cached_property
    def within(self) -> Tensor:
        """The shift (d,) farthest along the wish that is one standard deviation of the honest updates, (d,)."""
        parts = self.deviations @ self.towards
        return (parts @ self.deviations) / max(math.sqrt(len(self.matrix)) * float(parts.norm()), TINY)

    @cached_property
    def margins(self) -> Tensor:
        """The places of the coordinates (d,), those on whose sign the honest updates agree least first."""
        return self.matrix.sign().mean(dim=0).abs().argsort(stable=True)

    @cached_property
    def aligned(self) -> Tensor:
        """The honest updates (h, d), the most aligned with the wish first."""
        cosines = (self.matrix @ self.towards) / self.view.honest.norms.to(self.matrix).clamp(min=TINY)
        return self.matrix[cosines.argsort(descending=True, stable=True)]

    @cached_property
    def by_wish(self) -> Tensor:
        """The places (d,) of the coordinates in ascending order of the wish."""
        return self.wish.argsort(stable=True)


def unit(vector: Tensor) -> Tensor:
    """The vector (d,) at length 1; zero stays zero."""
    return vector.div(vector.norm().clamp(min=TINY))


def tilted(base: Tensor, towards: Tensor, cosine: float) -> Tensor:
    """The vector (d,) of length 1 with the ``cosine`` with ``base`` that is nearest to ``towards``."""
    base = unit(base)
    across = unit(towards - (towards @ base) * base)
    return cosine * base + math.sqrt(max(0.0, 1 - cosine**2)) * across


def _per_layer(stage: Stage, vector: Tensor) -> Tensor:
    """The vector with every layer at the median length of that layer of the honest updates."""
    parts = zip(stage.matrix.split(stage.layers, dim=1), vector.split(stage.layers), strict=True)
    return torch.cat([unit(part) * rows.norm(dim=1).median() for rows, part in parts])


def _arranged(stage: Stage, share: float) -> Tensor:
    """The numbers of an honest update, on a ``share`` of the coordinates arranged by the wish."""
    row = stage.aligned[0].clone()
    places = torch.zeros_like(row, dtype=torch.bool)
    places[stage.margins[: max(1, round(min(share, 1.0) * len(row)))]] = True
    order = stage.by_wish[places[stage.by_wish]]
    row[order] = row[order].sort().values
    return row


def _outvoted(stage: Stage, share: float) -> Tensor:
    """The sizes of honest values, with the majority's signs but on a ``share`` of the coordinates of least margins."""
    size = stage.matrix.abs().mean(dim=0)
    signs = stage.mean.sign()
    places = stage.margins[: max(1, round(min(share, 1.0) * len(signs)))]
    signs[places] = stage.sides[places]
    return size * signs


def _ranked(stage: Stage, share: float) -> Tensor:
    """In every coordinate the honest value that a ``share`` of them is farther along the wish than."""
    return stage.ranked[min(len(stage.ranked) - 1, int(share * len(stage.ranked)))]


def _shifted(stage: Stage, factor: float) -> Tensor:
    """The updates of the honest clients most aligned with the wish, each moved along it: a row for each attacker."""
    rows = stage.aligned[torch.arange(stage.view.num_byzantine) % len(stage.aligned)]
    return rows + factor * stage.length * stage.towards


def _scattered(stage: Stage, factor: float) -> Tensor:
    """The mean moved along the wish, with honest deviations of its own for every attacker."""
    rows = stage.deviations[torch.arange(stage.view.num_byzantine) % len(stage.deviations)]
    return stage.mean + rows - rows.mean(dim=0) + factor * stage.length * stage.towards


def _few(stage: Stage, factor: float) -> Tensor:
    """Half of the attackers move along the wish, the others send the honest mean."""
    b = stage.view.num_byzantine
    rows = stage.mean.repeat(b, 1)
    rows[: (b + 1) // 2] = factor * stage.length * stage.towards
    return rows


@dataclass(frozen=True)
class Disguise:
    """A family of updates: ``rows`` crafts (b, d) or (d,) at a strength. Strengths stay within ``bounds``; those of
    cosines change by their angle."""

    name: str
    rows: Callable[[Stage, float], Tensor]
    strengths: Sequence[float]
    bounds: tuple[float, float] = (0.0, math.inf)

    def changed(self, strength: float, factor: float) -> float:
        """A strength near another one."""
        low, high = self.bounds
        if low < 0:
            return math.cos(min(factor * math.acos(min(max(strength, low), high)), math.pi))
        return min(max((strength or LEAST) * factor, low), high)


DISGUISES: tuple[Disguise, ...] = (
    # Lengths: along the wish, at multiples of the honest length, of the whole or of every layer
    Disguise("length", lambda s, k: k * s.length * s.towards, (0.3, 1, 4, 20)),
    Disguise("layers", lambda s, k: k * _per_layer(s, s.wish), (1, 4)),
    Disguise("signs", lambda s, k: k * s.length / math.sqrt(len(s.mean)) * s.sides, (1, 4)),
    # Cosines: with the mean, with an answer of the rule, with an honest update
    Disguise("mean_cosine", lambda s, c: s.length * tilted(s.mean, s.towards, c), (0.1, 0.4, 0.7, 0.9), (-1, 1)),
    Disguise("answer_cosine", lambda s, c: s.length * tilted(s.answer, s.towards, c), (0.1, 0.4, 0.7, 0.9), (-1, 1)),
    Disguise("client_cosine", lambda s, c: s.length * tilted(s.aligned[0], s.towards, c), (0.4, 0.8), (-1, 1)),
    Disguise("layers_cosine", lambda s, c: _per_layer(s, tilted(s.mean, s.towards, c)), (0.1, 0.5, 0.8), (-1, 1)),
    # Distributions of the coordinates: ranks and deviations of each, all the numbers of an update
    Disguise("ranks", _ranked, (0.0, 0.1, 0.25), (0, 0.99)),
    Disguise("deviation", lambda s, k: s.mean + k * s.view.std * s.sides, (0.3, 1, 2, 4)),
    Disguise("arranged", _arranged, (1.0, 0.5, 0.2), (0, 1)),
    # Signs and margins of votes
    Disguise("outvoted", _outvoted, (1.0, 0.6, 0.3), (0, 1)),
    # Distances, clusters and spectrum
    Disguise("within", lambda s, k: s.mean + k * s.within, (1, 2, 5)),
    Disguise("aligned", lambda s, k: s.aligned[min(int(k), len(s.aligned) - 1)], (0,)),
    Disguise("shifted", _shifted, (0.0, 0.3, 1.0)),
    Disguise("scattered", _scattered, (0.3, 1.0)),
    Disguise("few", _few, (1, 10)),
    # Nothing and too much
    Disguise("zero", lambda s, k: k * s.mean, (0.0,)),
)
ARMS = tuple((disguise, strength) for disguise in DISGUISES for strength in disguise.strengths)
"""All disguises, at each of their strengths."""
