"""A rule: the mean of the updates that are close to most others (ours)."""

from dataclasses import dataclass
from typing import Annotated

import torch

from robustfl_bench import Aggregate, Aggregator, ConfigError, ServerView, Updates, at_least


@dataclass(frozen=True)
class Template(Aggregator):
    """The mean of the n - f updates with the least median distance to all updates. Needs n > 2f."""

    num_byzantine: Annotated[int, at_least(0)]  # without a default: num_byzantine_declared, which the server assumes
    """f: updates that are left out"""

    def check(self, n: int) -> None:
        """Raise ConfigError when n clients are too few; called before any data are loaded."""
        if n <= 2 * self.num_byzantine:
            raise ConfigError(f"{type(self).__name__} needs n > 2f, got n={n}, f={self.num_byzantine}")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round. ``updates.matrix`` is (n, d), one update per row."""
        self.check(updates.n)
        kept = updates.n - self.num_byzantine
        typical = updates.sq_dists.median(dim=1).values  # (n,)
        weights = torch.zeros_like(updates.counts)
        weights[typical.argsort(stable=True)[:kept]] = 1 / kept
        return updates.combine(weights)
