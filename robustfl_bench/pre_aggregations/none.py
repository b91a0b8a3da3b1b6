"""No pre-aggregation: the rule sees the clients' updates as they are."""

from dataclasses import dataclass

import numpy as np

from robustfl_bench.updates import Updates


@dataclass(frozen=True)
class Identity:
    """Returns the updates."""

    def __call__(self, updates: Updates, rng: np.random.Generator) -> Updates:
        return updates
