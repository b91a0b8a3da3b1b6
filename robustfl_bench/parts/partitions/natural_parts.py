"""Natural parts: the writers, roles or machines of the data, each in equal parts, are the clients (ours)."""

from dataclasses import dataclass

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.partitions.base import Partition


@dataclass(frozen=True)
class NaturalParts(Partition):
    """Deal the samples of each owner to equally many clients at random, as equally as can be: more clients than the
    data have, some of which are alike.

    With k clients an owner, clients ki to ki + k - 1 are those of the i-th owner in increasing order.
    """

    by_owner = True

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Here ``labels`` (N,) are the owners of the samples."""
        owners, sizes = np.unique(labels, return_counts=True)
        parts, left = divmod(num_clients, len(owners))
        if left or not parts:
            raise ConfigError(
                f"the data set has {len(owners)} clients of its own: num_clients must be a multiple, got {num_clients}"
            )
        if (least := sizes.min()) < parts:
            raise ConfigError(f"a client of the data set has {least} samples, too few for {parts} clients")
        order = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
        return [part for own in order for part in np.array_split(rng.permutation(own), parts)]
