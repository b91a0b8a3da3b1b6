"""Natural partition: the clients are the writers, roles or machines of the data (LEAF, arXiv 1812.01097)."""

from dataclasses import dataclass

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.partitions.base import Partition


@dataclass(frozen=True)
class Natural(Partition):
    """Every client has its own samples, as given by the data set; nothing is random."""

    by_owner = True

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Here ``labels`` (N,) are the owners of the samples; client i is the i-th owner in increasing order."""
        sizes = np.unique(labels, return_counts=True)[1]
        if len(sizes) != num_clients:
            raise ConfigError(f"the data set has {len(sizes)} clients of its own; set num_clients={len(sizes)}")
        return np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
