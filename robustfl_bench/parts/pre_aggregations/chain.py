"""Several pre-aggregations, one after the other."""

from dataclasses import dataclass

import numpy as np

from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.pre_aggregations.base import PreAggregation


@dataclass(frozen=True)
class Chain(PreAggregation):
    """Applies ``steps`` one after the other: ``pre_aggregation=[clipping,nnm]`` clips, then mixes."""

    steps: tuple[PreAggregation, ...]
    """applied one after the other"""

    def check(self, n: int) -> None:
        """Raise ConfigError if a step gets too few updates."""
        for step in self.steps:
            step.check(n)
            n = step.num_made(n)

    def num_made(self, n: int) -> int:
        """The number of updates that the last step returns."""
        for step in self.steps:
            n = step.num_made(n)
        return n

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        for step in self.steps:
            updates = step(updates, rng)
        return updates
