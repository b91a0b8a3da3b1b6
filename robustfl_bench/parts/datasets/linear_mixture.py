"""Mixture of linear regressions: the data of BRIFCA's section 6 (Tao, Yang, Kulkarni, arXiv 2306.00638)."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.bernoulli import bernoulli_vectors
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.files import Source
from robustfl_bench.parts.datasets.mixtures import clusters_of, mixture


@dataclass(frozen=True)
class LinearMixture(Dataset):
    """``num_clients`` machines in ``num_clusters`` clusters of equal size, each with ``points`` pairs (x, y).

    ``x ~ N(0, I)`` in ``dim`` dimensions, ``y = <x, theta> + N(0, noise_variance)``; the cluster's ``theta`` has
    coordinates Bernoulli(0.5), scaled to norm 1. Drawn from ``seed``; no file is read.
    """

    num_clients: Annotated[int, at_least(1)]
    """number of machines"""
    seed: Annotated[int, at_least(0)]
    """seed of all draws"""
    num_clusters: Annotated[int, at_least(1)] = 5
    """number of true parameters k; each cluster has an equal share of the clients"""
    dim: Annotated[int, at_least(1)] = 100
    """length of a parameter d"""
    points: Annotated[int, at_least(1)] = 100
    """samples per client"""
    noise_variance: Annotated[float, at_least(0)] = 0.2
    """variance of the noise of the observed targets"""
    test_points: Annotated[int, at_least(1)] = 100
    """test samples per cluster"""

    name = "linear_mixture"
    source = Source(name, layouts=(), licence="none, drawn from the seed")
    num_classes = 1

    def __post_init__(self) -> None:
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
