"""Bucketing: means of small random groups are more similar than clients (Karimireddy, He, Jaggi, ICLR 2022)."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.pre_aggregations.base import PreAggregation


@dataclass(frozen=True)
class Bucketing(PreAggregation):
    """Means of ceil(n / bucket_size) groups, drawn anew every round; the last group may be smaller. With
    ``bucket_size`` 1 the updates are only permuted.

    The result is ``y_k = mean of x_p(i) over (k - 1) s < i <= k s`` for a random permutation p of the clients and
    ``s = bucket_size``. f Byzantine clients affect up to f groups, so their share grows by a factor of up to
    ``bucket_size``.
    """

    bucket_size: Annotated[int, at_least(1)] = 2
    """clients averaged in a group; 1: no averaging"""

    def num_made(self, n: int) -> int:
        """The number of groups."""
        return math.ceil(n / self.bucket_size)

    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        order, bucket = rng.permutation(updates.n), np.arange(updates.n) // self.bucket_size
        mixing = np.zeros((self.num_made(updates.n), updates.n))
        mixing[bucket, order] = 1 / np.bincount(bucket)[bucket]
        return updates.mix(torch.from_numpy(mixing).to(updates.device))
