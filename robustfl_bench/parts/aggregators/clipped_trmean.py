"""Centered clipping, then a trimmed mean of what was clipped (``cc_tm`` of FL-Byzantine-Library).

https://github.com/CRYPTO-KU/FL-Byzantine-Library
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from robustfl_bench.base.fields import SCALE, at_least
from robustfl_bench.numerics.clipping import ClippingCentre
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class ClippedTrMean(Aggregator):
    """Trimmed mean of the updates, each clipped to within ``radius`` of the result of centered clipping.

    Clipping takes ``steps`` steps of ``v + mean of (x_i - v) min(1, radius / |x_i - v|)`` from the last aggregate, in
    the first round from 0. Of the vectors ``v + (x_i - v) min(1, radius / |x_i - v|)`` around the last v, the f largest
    and f smallest values of every coordinate are trimmed. The library starts the next round at the result of clipping;
    here it starts at the aggregate.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "no client moves it farther than the radius",
        "translation": "it starts from the last aggregate",
        "scale": "the radius is a length",
    }

    whole_matrices = 2

    num_byzantine: Annotated[int, at_least(0)]
    """f: values trimmed at each end of every coordinate"""
    radius: Annotated[float, at_least(0), SCALE] = 1.0
    """updates are clipped to this distance from the centre"""
    steps: Annotated[int, at_least(1)] = 1
    """number of clipping steps that move the centre"""

    def check(self, n: int) -> None:
        """Raise ConfigError if trimming leaves no value of n clients."""
        require_majority("clipped TrMean", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        centre = ClippingCentre(updates, server.previous, self.radius)
        for _ in range(self.steps):
            centre.step(np.arange(updates.n))
        factors = torch.from_numpy(centre.factors()).to(updates.device)
        rows = updates.columns
        near = (1 - factors).to(rows.dtype)[:, None] * centre.aggregate().vector
        clipped = updates.like(factors.to(rows.dtype)[:, None] * rows + near)
        return Aggregate(clipped.sorted_mean(self.num_byzantine, updates.n - self.num_byzantine))
