"""Quantity skew: clients with the same class distribution and different numbers of samples (Li et al., ICDE 2022,
https://arxiv.org/abs/2102.02079)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients, share


@dataclass(frozen=True)
class QuantitySkew(Partition):
    """Shuffle the samples and cut them into parts of unequal size.

    ``law: dirichlet`` draws the clients' shares from Dir(alpha, ..., alpha), as in NIID-Bench (section IV-C). ``law:
    power`` makes the r-th largest share proportional to r ** -exponent, with the clients in random order.

    Every client first gets ``min_size`` samples, and the others are divided by the law.

    Code: NIID-Bench redraws until every client has at least 10 samples, which fails for small ``alpha`` or many
    clients.
    """

    law: Annotated[str, one_of(dirichlet="one draw", power="they fall as rank ** -exponent")] = "dirichlet"
    """the clients' shares"""
    alpha: Annotated[float, between(1e-6, 1e6)] = 0.5
    """for law=dirichlet. small: one client has nearly all, large: equal sizes"""
    exponent: Annotated[float, between(0, 100)] = 1.0
    """for law=power. 0: equal sizes"""
    min_size: Annotated[int, at_least(1)] = 1
    """least number of samples per client"""

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
