"""Long tail: the sizes of the classes decrease exponentially (Cui et al., CVPR 2019, section 5,
https://arxiv.org/abs/1901.05555)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients


@dataclass(frozen=True)
class LongTail(Partition):
    """Keep an exponentially decreasing share of the classes, then split the rest by another partition, ``inner``.

    Of the i-th of c classes, from 0, a random share ``factor`` ** (-i / (c - 1)) is kept, at least one sample. If the
    classes had equal sizes, the first is then ``factor`` times as large as the last (the imbalance factor). 1 keeps all
    samples. The test set and the server's data do not change.
    """

    inner: Partition
    """the partition of the samples that remain"""
    factor: Annotated[float, at_least(1)] = 100
    """ratio of the sizes of the first and the last class; 1: all samples remain"""

    exempt: ClassVar = {"covering": "samples of rare classes are left out"}

    def __post_init__(self) -> None:
        if self.inner.by_owner:
            raise ConfigError(
                "long_tail leaves out samples by their label, but its inner partition knows owners only; take another"
            )

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        classes, sizes = np.unique(labels, return_counts=True)
        rank = np.arange(len(classes)) / max(len(classes) - 1, 1)
        remain = np.maximum(np.round(sizes * float(self.factor) ** -rank), 1).astype(np.int64)
        chosen = [
            rng.choice(np.flatnonzero(labels == label), number, replace=False)
            for label, number in zip(classes, remain, strict=True)
        ]
        kept = np.sort(np.concatenate(chosen))
        if len(kept) < num_clients:
            raise ConfigError(
                f"a factor of {self.factor:g} leaves {len(kept)} of {len(labels)} samples for {num_clients} clients;"
                " lower num_clients or partition.factor"
            )
        return [kept[part] for part in self.inner(labels[kept], num_clients, rng)]
