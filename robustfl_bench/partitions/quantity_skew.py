"""Quantity skew: clients with the same class distribution and different numbers of samples (Li et al., ICDE 2022,
https://arxiv.org/abs/2102.02079)."""

import math
from dataclasses import dataclass

import numpy as np

from robustfl_bench.base.errors import ConfigError, check_choice, check_fields
from robustfl_bench.partitions.base import Partition
from robustfl_bench.partitions.dealing import check_clients, share


@dataclass(frozen=True)
class QuantitySkew(Partition):
    """Shuffle the samples and cut them into parts of unequal size.

    ``law: dirichlet`` draws the clients' shares from Dir(alpha, ..., alpha), as in NIID-Bench (section IV-C): a small
    ``alpha`` gives nearly all samples to one client, a large one makes sizes equal. ``law: power`` makes the r-th
    largest share proportional to r ** -exponent, with the clients in random order: 0 makes sizes equal.

    Every client first gets ``min_size`` samples, and the others are divided by the law. NIID-Bench's code redraws until
    every client has at least 10, which fails for small ``alpha`` or many clients.
    """

    law: str = "dirichlet"
    alpha: float = 0.5
    exponent: float = 1.0
    min_size: int = 1

    def __post_init__(self) -> None:
        check_choice("law", self.law, ("dirichlet", "power"))
        check_fields(self, alpha=(1e-6, 1e6), exponent=(0, 100), min_size=(1, math.inf))

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        spare = len(labels) - num_clients * self.min_size
        if spare < 0:
            raise ConfigError(
                f"{len(labels)} samples are too few for {num_clients} clients with {self.min_size} each; lower"
                " num_clients or partition.min_size"
            )
        if self.law == "dirichlet":
            weights = rng.dirichlet(np.full(num_clients, self.alpha))
        else:
            weights = rng.permutation(np.arange(1.0, num_clients + 1) ** -self.exponent)
        sizes = self.min_size + share(np.array([spare]), weights[:, None], rng)[:, 0]
        return np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1])
