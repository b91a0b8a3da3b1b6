"""Dirichlet label skew: random label distributions (Hsu et al., arXiv 1909.06335; Yurochkin et al., ICML 2019)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients, deal, share

MAX_DRAWS = 1000
EPSILON = 1e-5  # keeps every class available to every client, in case no client draws it


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Draw label distributions from a Dirichlet distribution and split every class by them.

    ``per: client`` draws each client's distribution over classes from Dir(alpha * shares of the classes), as in Hsu et
    al. (arXiv 1909.06335) and in the code of BOBA's first author; a class is then split in proportion to the clients'
    probabilities of it, so a small ``alpha`` gives about one class per client. ``per: class`` draws each class's
    distribution over clients from Dir(alpha, ..., alpha), as in Yurochkin et al. (ICML 2019); a small ``alpha`` leaves
    clients empty. In both, a large ``alpha`` makes clients similar. The draw is repeated until every client has
    ``min_size`` samples.
    """

    alpha: Annotated[float, between(1e-6, 1e6)] = 0.01
    """small: about one class per client; large: all clients alike"""
    per: Annotated[str, one_of("client", "class")] = "client"
    """Dirichlet draws of the classes of each client, or of the clients of each class"""
    min_size: Annotated[int, at_least(1)] = 1
    """redrawn until every client has this many samples"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        sizes = np.unique(labels, return_counts=True)[1]
        for _ in range(MAX_DRAWS):
            if self.per == "client":
                weights = EPSILON + rng.dirichlet(self.alpha * sizes / sizes.sum() + EPSILON, size=num_clients)
            else:
                weights = rng.dirichlet(np.full(num_clients, self.alpha), size=len(sizes)).T
            counts = share(sizes, weights, rng)
            if counts.sum(axis=1).min() >= self.min_size:
                return deal(labels, counts, rng)
        raise ConfigError(
            f"none of {MAX_DRAWS} Dirichlet draws (alpha={self.alpha:g}, per={self.per}) gave each of {num_clients}"
            f" clients {self.min_size} samples; raise partition.alpha, lower num_clients or min_size, or use per=client"
        )
