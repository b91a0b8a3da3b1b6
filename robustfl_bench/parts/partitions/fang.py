"""Label skew by groups of clients (Fang, Cao, Jia, Gong, USENIX Security 2020, section 5.1)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients


@dataclass(frozen=True)
class Fang(Partition):
    """One group of clients per class: a sample goes to the group of its class with probability ``q``, else to another
    group.

    All other groups are equally likely; within a group the samples are shuffled and divided equally. With c classes,
    ``q`` = 1/c is IID, and 1 gives every client one class. Client i is in group i modulo c; if there are fewer clients
    than classes, each client is a group, and class y belongs to group y modulo their number.

    Code: the first author's later code draws the client of every sample within the group, so that the sizes of clients
    vary by chance; here they are equal.
    """

    q: Annotated[float, between(0, 1)] = 0.5
    """probability that a sample goes to its class's own group of clients; 1 / classes: IID"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        classes, own = np.unique(labels, return_inverse=True)
        groups = min(num_clients, len(classes))
        other = own + 1 + rng.integers(max(groups - 1, 1), size=len(labels))
        group = np.where(rng.random(len(labels)) < self.q, own, other) % groups
        parts = [np.empty(0, dtype=np.int64)] * num_clients
        for number in range(groups):
            members = range(number, num_clients, groups)
            dealt = np.array_split(rng.permutation(np.flatnonzero(group == number)), len(members))
            for client, part in zip(members, dealt, strict=True):
                parts[client] = part
        if not all(map(len, parts)):
            raise ConfigError(
                "a group has fewer samples than clients; lower num_clients, or make partition.q less extreme"
            )
        return parts
