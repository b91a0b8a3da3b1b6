"""Geometric median of means (Chen, Su, Xu, POMACS 2017, Algorithm 2, https://arxiv.org/abs/1705.05491)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.gram_space import weiszfeld
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class MedianOfMeans(Aggregator):
    """Geometric median of the means of ``num_groups`` groups of clients, which are drawn anew every round.

    The groups have equal sizes, up to one; the result minimises ``sum of |m_k - y|`` over y for their means m_k. The
    theory needs more than 2f groups. One group gives the mean, n groups give the geometric median. In the paper the
    groups are fixed.
    """

    exempt: ClassVar[Mapping[str, str]] = {"order": "groups are drawn by position in the matrix"}

    num_byzantine: Annotated[int, at_least(0)]
    """f: at most f groups have attackers"""
    num_groups: Annotated[int | None, at_least(1)] = None
    """number of groups of clients; null: 2f + 1"""
    eps: Annotated[float, at_least(0)] = 1e-8
    """least step, and distance at which a mean is reached, in median distances from the medoid"""
    max_iter: Annotated[int, at_least(1)] = 1000
    """maximum number of steps"""

    @property
    def _groups(self) -> int:
        return 2 * self.num_byzantine + 1 if self.num_groups is None else self.num_groups

    def check(self, n: int) -> None:
        """Raise ConfigError if there are fewer clients than groups."""
        if n < self._groups:
            raise ConfigError(
                f"median of means needs n >= {self._groups} (groups), got n={n}, f={self.num_byzantine}; "
                "lower num_groups or num_byzantine_declared"
            )

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        mixing = torch.zeros(self._groups, updates.n, dtype=torch.float64)
        for row, members in zip(mixing, np.array_split(server.rng.permutation(updates.n), self._groups), strict=True):
            row[members] = 1 / len(members)
        means = updates.mix(mixing.to(updates.device))
        weights = weiszfeld(means.gram.cpu().numpy(), np.ones(means.n), self.eps, self.max_iter)
        return means.combine(torch.from_numpy(weights).to(updates.device))
