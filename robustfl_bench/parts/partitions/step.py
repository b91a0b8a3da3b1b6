"""Step label skew: every client has a few major classes and fewer samples of all others (Chen and Chao, ICLR 2021)."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients, deal, share
from robustfl_bench.parts.partitions.shards import deal_shards


@dataclass(frozen=True)
class Step(Partition):
    """Split every class over the clients by weight: ``alpha`` if the class is major for the client, else 1.

    Major classes are dealt like the shards of the pathological partition (BOBA, Bao et al., AISTATS 2024, appendix
    C.5.1), so every class is major for the same number of clients. A client dealt one class k times has weight 1 + k
    (alpha - 1) for it. Infinity (``.inf``) gives the pathological partition.
    """

    alpha: Annotated[float, at_least(1)] = 8
    """weight of a client's major class; 1: all clients alike, .inf: major classes only"""
    major_classes: Annotated[int, at_least(1)] = 2
    """number of major classes per client"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        sizes = np.unique(labels, return_counts=True)[1]
        major = deal_shards(sizes, num_clients, self.major_classes, rng)
        weights = major if math.isinf(self.alpha) else 1 + major * (self.alpha - 1)
        return deal(labels, share(sizes, weights, rng), rng)
