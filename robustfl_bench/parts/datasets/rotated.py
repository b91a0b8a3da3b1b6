"""Rotated images: each cluster of clients has its own angle (IFCA, Ghosh et al., NeurIPS 2020, 6.2)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.mixtures import clusters_of

if TYPE_CHECKING:
    from robustfl_bench.parts.datasets.files import Source


@dataclass(frozen=True)
class Rotated(Dataset):
    """The images of ``base``, dealt evenly to clients and rotated by the angle of the client's cluster.

    The angles are 0, 90, 180 and 270 degrees for 4 clusters, 0 and 180 for 2. Every training image is used once (the
    paper uses it under every angle); every test image is used under every angle.
    """

    base: Dataset
    """the images"""
    num_clients: Annotated[int, at_least(1)]
    """number of clients"""
    seed: Annotated[int, at_least(0)]
    """seed of all draws"""
    num_clusters: Annotated[int, between(1, 4)] = 4
    """number of angles: 1, 2 or 4; each has an equal share of the clients"""

    def __post_init__(self) -> None:
        if self.num_clusters == 3:
            raise ConfigError("num_clusters must be 1, 2 or 4, as images are turned by quarters, got 3")
        if len(self.input_shape) != 3 or self.input_shape[1] != self.input_shape[2]:
            raise ConfigError(f"only square images can be turned, got inputs of shape {self.input_shape}")
        clusters_of(self.num_clients, self.num_clusters)

    @property
    def source(self) -> "Source | None":
        """The files of the base; None if it says nothing of them."""
        return self.base.source

    @property
    def name(self) -> str:
        """``rotated_`` and the name of the base."""
        return f"rotated_{self.base.name}"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """That of the base."""
        return self.base.input_shape

    @property
    def num_classes(self) -> int:
        """Those of the base."""
        return self.base.num_classes

    def load(self, folder: Path) -> Data:
        """Read the base and turn it; raises DataError as the base does."""
        import numpy as np
        import torch

        data = self.base.load(folder)
        order = seeding.generator(self.seed, "owners").permutation(len(data.train_y))
        owners = np.empty(len(order), dtype=np.int64)
        owners[order] = np.arange(len(order)) * self.num_clients // len(order)
        clusters = torch.from_numpy(clusters_of(self.num_clients, self.num_clusters)[owners])
        train_x, quarters = torch.empty_like(data.train_x), 4 // self.num_clusters
        for cluster in range(self.num_clusters):
            train_x[clusters == cluster] = data.train_x[clusters == cluster].rot90(cluster * quarters, (2, 3))
        turned = [data.test_x.rot90(cluster * quarters, (2, 3)) for cluster in range(self.num_clusters)]
        return replace(
            data,
            train_x=train_x,
            test_x=torch.cat(turned),
            test_y=data.test_y.repeat(self.num_clusters),
            owners=torch.from_numpy(owners),
            clusters=clusters,
            test_clusters=torch.arange(self.num_clusters).repeat_interleave(len(data.test_y)),
        )
