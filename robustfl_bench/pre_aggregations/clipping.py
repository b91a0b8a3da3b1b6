"""Static clipping to a radius (Allouah et al., ICLR 2025, section 3, as in ByzFL).

https://arxiv.org/abs/2405.14432
"""

import math
from dataclasses import dataclass

import numpy as np

from robustfl_bench.base.errors import check_fields
from robustfl_bench.numerics.clipping import clip_factors
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.pre_aggregations.base import PreAggregation


@dataclass(frozen=True)
class Clipping(PreAggregation):
    """The updates, clipped to the norm ``radius``; 2 is ByzFL's default."""

    radius: float = 2.0

    def __post_init__(self) -> None:
        check_fields(self, radius=(0, math.inf))

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        return updates.mix(clip_factors(updates.norms, self.radius).diag())
