"""Mixture of means: the estimation problem of BRIFCA's section 5.3 (Tao, Yang, Kulkarni, arXiv 2306.00638)."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Number, at_least, one_of
from robustfl_bench.parts.datasets.base import Data, Dataset
from robustfl_bench.parts.datasets.files import Source
from robustfl_bench.parts.datasets.mixtures import clusters_of, mixture


@dataclass(frozen=True)
class MeanMixture(Dataset):
    """``num_clients`` machines in ``num_clusters`` clusters of equal size, each with ``points`` vectors.

    Every coordinate of a cluster's mean is ``low`` or ``high``, with equal chance. The vectors are ``gaussian`` with
    ``noise_variance`` around it, or ``poisson``, whose client means are not sub-Gaussian. The theory of the Three-Stage
    algorithm needs sub-Gaussian means, BRIFCA's does not. A vector is its own target. Drawn from ``seed``.
    """

    num_clients: Annotated[int, at_least(1)]
    """number of machines"""
    seed: Annotated[int, at_least(0)]
    """seed of all draws"""
    num_clusters: Annotated[int, at_least(1)] = 5
    """number of true means; each cluster has an equal share of the clients"""
    dim: Annotated[int, at_least(1)] = 20
    """length of a vector"""
    points: Annotated[int, at_least(1)] = 100
    """samples per client"""
    family: Annotated[str, one_of("gaussian", poisson="whose variance is its mean")] = "gaussian"
    """distribution of the vectors"""
    low: Number = 1
    """the smaller of the two values that coordinates of a mean have"""
    high: Number = 3
    """the larger of these values"""
    noise_variance: Annotated[float, at_least(0)] = 1
    """variance of every coordinate, for gaussian"""
    test_points: Annotated[int, at_least(1)] = 100
    """test samples per cluster"""

    name = "mean_mixture"
    source = Source(name, layouts=(), licence="none, drawn from the seed")

    def __post_init__(self) -> None:
        if self.family == "poisson" and self.low < 0:
            raise ConfigError(f"low must be >= 0, got {self.low!r}")
        if self.high < self.low:
            raise ConfigError(f"high must be >= low, got low={self.low}, high={self.high}")
        clusters_of(self.num_clients, self.num_clusters)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """A vector."""
        return (self.dim,)

    @property
    def num_classes(self) -> int:
        """Numbers to predict."""
        return self.dim

    def load(self, folder: Path) -> Data:
        """Draw the data; ``folder`` is not used."""
        rng = seeding.generator(self.seed, "true parameters")
        truth = np.where(rng.integers(2, size=(self.num_clusters, self.dim)) == 1, float(self.high), float(self.low))
        return mixture(self.seed, self.num_clients, self.points, self.test_points, truth, self._draw)

    def _draw(self, rng: np.random.Generator, mean: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        if self.family == "poisson":
            x = rng.poisson(mean, size=(count, self.dim)).astype(np.float32)
        else:
            x = (mean + math.sqrt(self.noise_variance) * rng.standard_normal((count, self.dim))).astype(np.float32)
        return x, x
