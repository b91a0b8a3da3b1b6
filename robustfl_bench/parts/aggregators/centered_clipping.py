"""Centered clipping: steps from the last aggregate whose length no client can make large.

Karimireddy, He, Jaggi, ICML 2021, equation (CC), https://arxiv.org/abs/2012.10333.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from robustfl_bench.base.fields import SCALE, Flag, at_least
from robustfl_bench.numerics.clipping import ClippingCentre
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class CenteredClipping(Aggregator):
    """Last aggregate plus the mean of the updates' differences from it, each shortened to ``radius``.

    The rule takes ``steps`` steps of ``v + mean of (x_i - v) min(1, radius / |x_i - v|)`` from the last aggregate, in
    the first round from 0. The paper makes one step with a radius of 10 / (1 - beta), where beta is the clients'
    momentum: 10 without momentum, 100 with 0.9 (the default of ByzFL). ``weights`` are the clients' coefficients; the
    coefficient of the last aggregate is 1 minus their sum.

    Code: the authors sum gradients in the momentum; for the means of ``local_update=momentum``, the radius that
    corresponds to theirs is 10.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "no client moves it farther than the radius",
        "translation": "it starts from the last aggregate",
        "scale": "the radius is a length",
    }

    radius: Annotated[float, at_least(0), SCALE] = 10.0
    """no client moves the aggregate by more than radius / n in a step"""
    steps: Annotated[int, at_least(1)] = 1
    """clipping steps, each centred where the previous step ended"""
    per_layer: Flag = False
    """true: clips every parameter tensor separately, as in FL-Byzantine-Library"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        if not self.per_layer:
            return self._clipped(updates, server.previous)
        start, parts = server.previous, updates.layers(server.layers or (updates.d,))
        clipped = (self._clipped(part, None if start is None else start[columns]) for part, columns in parts)
        return Aggregate(torch.cat([aggregate.vector for aggregate in clipped]))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        start, parts = server.previous, [(updates, slice(None))]
        if self.per_layer:
            parts = updates.layers(server.layers or (updates.d,))
        found = []
        for part, columns in parts:
            centre = ClippingCentre(part, None if start is None else start[columns], self.radius)
            for _ in range(self.steps):
                centre.step_by_mass()
            found.append(centre.aggregate())
        return found[0] if not self.per_layer else Aggregate(torch.cat([aggregate.vector for aggregate in found]))

    def _clipped(self, updates: Updates, start: torch.Tensor | None) -> Aggregate:
        centre = ClippingCentre(updates, start, self.radius)
        for _ in range(self.steps):
            centre.step(np.arange(updates.n))
        return centre.aggregate()
