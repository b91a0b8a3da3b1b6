"""What is done to the updates before the rule: long ones are shortened."""

import math
from dataclasses import dataclass

import numpy as np

from robustfl_bench import PreAggregation, Updates, check_fields


@dataclass(frozen=True)
class Template(PreAggregation):
    """The updates, those longer than ``factor`` times the median length shortened to that."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self, factor=(0, math.inf))

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        """The updates that the rule is given: row i of a matrix (n', n) says what new update i is made of."""
        radius = self.factor * updates.norms.median()
        shares = (radius / updates.norms.clamp(min=1e-300)).clamp(max=1)
        return updates.mix(shares.diag())
