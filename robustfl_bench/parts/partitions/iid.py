"""IID: every client is a random sample of the same data (folklore)."""

from dataclasses import dataclass

import numpy as np

from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients


@dataclass(frozen=True)
class IID(Partition):
    """Shuffle all samples and cut them into parts of equal size (some have one sample more)."""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        return np.array_split(rng.permutation(len(labels)), num_clients)
