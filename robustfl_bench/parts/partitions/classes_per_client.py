"""A fixed number of classes per client (NIID-Bench: Li, Diao, Chen, He, ICDE 2022, section IV-A, "#C=k").

https://arxiv.org/abs/2102.02079
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients, deal, share


@dataclass(frozen=True)
class ClassesPerClient(Partition):
    """Give every client exactly ``classes`` different classes; the clients of a class get equal shares of its samples.

    Client i has class i modulo c, and its other classes are drawn at random, so the number of clients per class varies.
    The first draws go to classes without a client, as long as there are any, so that no sample is lost. With all c
    classes the partition is IID up to rounding. In the pathological partition, by contrast, a client can get fewer
    classes by chance.

    Code: NIID-Bench draws the other classes from all, so that the samples of a class without clients are lost.
    """

    classes: Annotated[int, at_least(1)] = 2
    """number of classes per client"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        known, sizes = np.unique(labels, return_counts=True)
        if not self.classes <= len(known) <= num_clients * self.classes:
            raise ConfigError(
                f"{num_clients} clients with {self.classes} different classes each cannot hold all {len(known)}"
                f" classes; take partition.classes from {-(-len(known) // num_clients)} to {len(known)}"
            )
        held = self._held(num_clients, len(known), rng)
        for label, size, holders in zip(known, sizes, held.sum(axis=0), strict=True):
            if holders > size:
                raise ConfigError(
                    f"class {label} has {size} samples for {holders} clients; lower num_clients or partition.classes"
                )
        return deal(labels, share(sizes, held, rng), rng)

    def _held(self, num_clients: int, num_classes: int, rng: np.random.Generator) -> np.ndarray:
        """The classes of every client, (n, c) of 0 and 1; every row adds up to ``classes``, no column to 0."""
        held = np.zeros((num_clients, num_classes), dtype=np.int64)
        for turn in range(self.classes):
            for client, own in enumerate(held):
                number = turn * num_clients + client
                if number < num_classes or turn == 0:
                    own[number % num_classes] = 1
                else:
                    own[rng.choice(np.flatnonzero(own == 0))] = 1
        return held
