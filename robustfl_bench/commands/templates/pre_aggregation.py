"""What is done to the updates before the rule: long ones are shortened (ours)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench import PreAggregation, Updates, at_least


@dataclass(frozen=True)
class Template(PreAggregation):
    """The updates, those longer than ``factor`` times the median length shortened to that."""

    factor: Annotated[float, at_least(0)] = 1.0
    """longest update, in median lengths"""

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        """The updates that the rule is given: row i of a matrix (n', n) says what new update i is made of."""
        radius = self.factor * updates.norms.median()
        shares = (radius / updates.norms.clamp(min=1e-300)).clamp(max=1)
        return updates.mix(shares.diag())
