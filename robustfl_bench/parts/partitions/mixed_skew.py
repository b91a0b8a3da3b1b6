"""Mixed skew: clients with different numbers of samples and different class distributions, as hospitals have (ours)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.fields import between
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients, deal, share

PASSES = 200
"""Fitting passes; the sizes are then within one sample a class of what they should be, but in extreme cases."""
SMALLEST = 1e-6
"""Least share of a class at a client, so that every table of sizes can be reached."""


@dataclass(frozen=True)
class MixedSkew(Partition):
    """Sizes that fall by a constant factor from the largest client to the smallest, and class shares drawn by client.

    The r-th largest of n clients has a share proportional to ``ratio ** (-(r - 1) / (n - 1))``; the clients' order is
    random. Each client's distribution over the classes is drawn from Dir(alpha * shares of the classes), as in
    ``dirichlet``. Both cannot hold exactly, as every sample has one owner: the drawn table of clients and classes is
    brought to the sizes of the clients and of the classes in turn (iterative proportional fitting; Deming and Stephan,
    Ann. Math. Stat. 1940), so a client with most of the samples is close to the mix of all. Every client gets at least
    one sample.
    """

    ratio: Annotated[float, between(1, 1e6)] = 94.0
    """samples of the largest client by those of the smallest"""
    alpha: Annotated[float, between(1e-6, 1e6)] = 5.0
    """small: about one class per small client; large: all clients alike"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        ranks = np.linspace(0, 1, num_clients) if num_clients > 1 else np.zeros(1)
        shares = rng.permutation(self.ratio**-ranks)
        rows = len(labels) * shares / shares.sum()
        classes = np.unique(labels, return_counts=True)[1]
        table = SMALLEST + rng.dirichlet(self.alpha * classes / classes.sum() + SMALLEST, size=num_clients)
        for _ in range(PASSES):
            table *= (rows / table.sum(axis=1))[:, None]
            table *= classes / table.sum(axis=0)
        counts = share(classes, table, rng)
        for client in np.flatnonzero(counts.sum(axis=1) == 0):
            giver = counts.sum(axis=1).argmax()
            label = counts[giver].argmax()
            counts[giver, label] -= 1
            counts[client, label] += 1
        return deal(labels, counts, rng)
