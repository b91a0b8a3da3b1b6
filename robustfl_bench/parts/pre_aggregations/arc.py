"""ARC, adaptive robust clipping: the longest updates are clipped to the length of the next one.

Allouah, Guerraoui, Gupta, Jellouli, Rizk, Stephan, ICLR 2025, Algorithm 2, https://arxiv.org/abs/2405.14432.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.clipping import clip_factors
from robustfl_bench.numerics.selection import num_kept
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.pre_aggregations.base import PreAggregation


@dataclass(frozen=True)
class Arc(PreAggregation):
    """The updates, with the ``floor(2 f / n (n - f))`` longest clipped to the length of the next one.

    Update i becomes ``x_i min(1, r / |x_i|)``, where r is the norm at place ``floor(2 f / n (n - f)) + 1``, the largest
    first. f = 0 changes nothing.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: the floor(2 f / n (n - f)) longest updates are shortened"""

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client."""
        num_kept("ARC", n, self.num_byzantine)

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        n, f = updates.n, self.num_byzantine
        shortened = 2 * f * num_kept("ARC", n, f) // n
        radius = float(np.sort(updates.norms.cpu().numpy())[n - 1 - shortened])
        return updates.mix(clip_factors(updates.norms, radius).diag())
