"""Mixture of linear regressions: the data of BRIFCA's section 6 (Tao, Yang, Kulkarni, arXiv 2306.00638)."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import check_fields
from robustfl_bench.datasets.base import Data, Dataset
from robustfl_bench.datasets.files import Source
from robustfl_bench.datasets.mixtures import clusters_of, mixture
from robustfl_bench.numerics.bernoulli import bernoulli_vectors


@dataclass(frozen=True)
class LinearMixture(Dataset):
    """``num_clients`` machines in ``num_clusters`` clusters of equal size, each with ``points`` pairs (x, y).

    ``x ~ N(0, I)`` in ``dim`` dimensions, ``y = <x, theta> + N(0, noise_variance)``; the cluster's ``theta`` has
    coordinates Bernoulli(0.5), scaled to norm 1. Drawn from ``seed``; no file is read.
    """

    num_clients: int
    seed: int
    num_clusters: int = 5
    dim: int = 100
    points: int = 100
    noise_variance: float = 0.2
    test_points: int = 100

    name = "linear_mixture"
    source = Source(name, layouts=(), licence="none, drawn from the seed")
    num_classes = 1

    def __post_init__(self) -> None:
        check_fields(self, num_clients=(1, math.inf), seed=(0, math.inf), num_clusters=(1, math.inf), dim=(1, math.inf))
        check_fields(self, points=(1, math.inf), noise_variance=(0, math.inf), test_points=(1, math.inf))
        clusters_of(self.num_clients, self.num_clusters)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """A vector."""
        return (self.dim,)

    def load(self, folder: Path) -> Data:
        """Draw the data; ``folder`` is not used."""
        truth = bernoulli_vectors(self.num_clusters, self.dim, 1.0, seeding.generator(self.seed, "true parameters"))
        return mixture(self.seed, self.num_clients, self.points, self.test_points, truth, self._draw)

    def _draw(self, rng: np.random.Generator, theta: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((count, self.dim), dtype=np.float32)
        noise = math.sqrt(self.noise_variance) * rng.standard_normal(count, dtype=np.float32)
        return x, x @ theta.astype(np.float32) + noise
