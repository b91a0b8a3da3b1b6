"""Gamma-similarity: a share of the samples is IID, the rest sorted by label (SCAFFOLD, Karimireddy et al., ICML
2020, section 7, https://arxiv.org/abs/1910.06378)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from robustfl_bench.base.fields import between
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.partitions.dealing import check_clients


@dataclass(frozen=True)
class GammaSimilarity(Partition):
    """Deal a random share ``gamma`` of the samples as IID, sort the others by label and cut them into equal stretches.

    Client i gets the i-th part of both, so clients with neighbouring indices have neighbouring labels. 1 is IID; with
    0, ByzFL's ``extreme_niid``, each of n clients has about 1 + c / n of the c classes. Sizes differ by at most one
    sample.

    Code: the IID share of ByzFL's ``gamma_similarity_niid`` is not random, but the first samples of the data set.
    """

    gamma: Annotated[float, between(0, 1)] = 0.5
    """share of the samples that are dealt at random; the rest are sorted by label. 1: IID, 0: sorted"""

    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        check_clients(labels, num_clients)
        shuffled = rng.permutation(len(labels))
        alike, rest = np.split(shuffled, [int(self.gamma * len(labels))])
        ordered = rest[np.argsort(labels[rest], kind="stable")]
        # Left-over samples of the IID share go to the first clients, those of the sorted rest to the last ones.
        stretches = np.array_split(ordered[::-1], num_clients)[::-1]
        pairs = zip(np.array_split(alike, num_clients), stretches, strict=True)
        return [np.concatenate(pair) for pair in pairs]
