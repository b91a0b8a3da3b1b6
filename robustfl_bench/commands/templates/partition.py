"""A partition: every client gets a few blocks of the samples sorted by label (ours)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench import ConfigError, Partition, at_least


@dataclass(frozen=True)
class Template(Partition):
    """``blocks`` blocks of equal size for each client."""

    blocks: Annotated[int, at_least(1)] = 2
    """blocks per client; 1: most clients have one class; many: all classes"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """The samples of each client, as indices; ``labels`` is (N,) int64."""
        total = num_clients * self.blocks
        if not 0 < total <= len(labels):
            raise ConfigError(f"{total} blocks need as many samples, got {len(labels)}; lower partition.blocks")
        shuffled = rng.permutation(len(labels))
        blocks = np.array_split(shuffled[np.argsort(labels[shuffled], kind="stable")], total)
        dealt = rng.permutation(total).reshape(num_clients, self.blocks)
        return [np.concatenate([blocks[block] for block in own]) for own in dealt]
