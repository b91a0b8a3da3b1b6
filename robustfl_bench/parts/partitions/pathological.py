"""Pathological label skew: a few one-class shards per client (McMahan et al., AISTATS 2017, section 3)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients, deal, share
from robustfl_bench.parts.partitions.shards import deal_shards


@dataclass(frozen=True)
class Pathological(Partition):
    """Cut every class into nearly equal shards and deal each client ``shards_per_client`` of them at random.

    As in BOBA (Bao et al., AISTATS 2024, appendix C.1), no shard spans two classes, so a client has at most
    ``shards_per_client`` classes, and fewer if it gets two shards of one class by chance.
    """

    shards_per_client: Annotated[int, at_least(1)] = 2
    """shards dealt to each client; a shard holds one class"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        classes, sizes = np.unique(labels, return_counts=True)
        held = deal_shards(sizes, num_clients, self.shards_per_client, rng)
        for label, size, shards in zip(classes, sizes, held.sum(axis=0), strict=True):
            if shards > size:
                raise ConfigError(
                    f"class {label} has {size} samples for {shards} shards;"
                    " lower num_clients or partition.shards_per_client"
                )
        return deal(labels, share(sizes, held, rng), rng)
