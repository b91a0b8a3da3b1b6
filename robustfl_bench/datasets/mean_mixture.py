"""Mixture of means: the estimation problem of BRIFCA's section 5.3 (Tao, Yang, Kulkarni, arXiv 2306.00638)."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError, check_choice, check_fields
from robustfl_bench.datasets.base import Data, Dataset
from robustfl_bench.datasets.files import Source
from robustfl_bench.datasets.mixtures import clusters_of, mixture

FAMILIES = ("gaussian", "poisson")


@dataclass(frozen=True)
class MeanMixture(Dataset):
    """``num_clients`` machines in ``num_clusters`` clusters of equal size, each with ``points`` vectors.

    Every coordinate of a cluster's mean is ``low`` or ``high``, with equal chance. The vectors are ``gaussian`` with
    ``noise_variance`` around it, or ``poisson``, whose client means are not sub-Gaussian. The theory of the Three-Stage
    algorithm needs sub-Gaussian means, BRIFCA's does not. A vector is its own target. Drawn from ``seed``.
    """

    num_clients: int
    seed: int
    num_clusters: int = 5
    dim: int = 20
    points: int = 100
    family: str = "gaussian"
    low: float = 1
    high: float = 3
    noise_variance: float = 1
    test_points: int = 100

    name = "mean_mixture"
    source = Source(name, layouts=(), licence="none, drawn from the seed")

    def __post_init__(self) -> None:
        check_fields(self, num_clients=(1, math.inf), seed=(0, math.inf), num_clusters=(1, math.inf), dim=(1, math.inf))
        check_fields(self, points=(1, math.inf), noise_variance=(0, math.inf), test_points=(1, math.inf))
        check_choice("family", self.family, FAMILIES)
        check_fields(self, low=(0 if self.family == "poisson" else -math.inf, math.inf), high=(-math.inf, math.inf))
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
