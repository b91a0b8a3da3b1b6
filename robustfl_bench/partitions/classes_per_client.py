"""A fixed number of classes per client (NIID-Bench: Li, Diao, Chen, He, ICDE 2022, section IV-A, "#C=k")."""

import math
from dataclasses import dataclass

import numpy as np

from robustfl_bench.interfaces import ConfigError, Partition, check_fields
from robustfl_bench.partitions.dealing import check_clients, deal, share


@dataclass(frozen=True)
class ClassesPerClient(Partition):
    """Give every client exactly ``classes`` different classes; the holders of a class get equally many of its samples.

    As in the code of NIID-Bench (https://arxiv.org/abs/2102.02079), client i has class i modulo c and the others are
    drawn at random, so classes are held by unequally many clients. Here the first draws go to classes that nobody
    would hold, as long as there are some: no sample is lost. With all c classes it is IID up to rounding. The
    pathological partition, in contrast, lets chance give a client fewer classes.
    """

    classes: int = 2

    def __post_init__(self) -> None:
        check_fields(self, classes=(1, math.inf))

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
        """Which client holds which class, (n, c) of 0 and 1: every row adds up to ``classes``, no column to 0."""
        held = np.zeros((num_clients, num_classes), dtype=np.int64)
        for turn in range(self.classes):
            for client, own in enumerate(held):
                number = turn * num_clients + client
                if number < num_classes or turn == 0:
                    own[number % num_classes] = 1
                else:
                    own[rng.choice(np.flatnonzero(own == 0))] = 1
        return held
