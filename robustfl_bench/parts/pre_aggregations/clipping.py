"""Static clipping to a radius (Allouah et al., ICLR 2025, section 3, as in ByzFL).

https://arxiv.org/abs/2405.14432
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.clipping import clip_factors
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.pre_aggregations.base import PreAggregation


@dataclass(frozen=True)
class Clipping(PreAggregation):
    """The updates, clipped to the norm ``radius``; 2 is ByzFL's default.

    Update i becomes ``x_i min(1, radius / |x_i|)``.
    """

    radius: Annotated[float, at_least(0)] = 2.0
    """longest norm of an update"""

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        return updates.mix(clip_factors(updates.norms, self.radius).diag())
