"""Data drawn at random: clients in clusters, each cluster with its own parameter."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError

if TYPE_CHECKING:  # importing torch takes over a second, and `robustfl-data` does without it
    from robustfl_bench.parts.datasets.base import Data

Draw = Callable[[np.random.Generator, np.ndarray, int], tuple[np.ndarray, np.ndarray]]
"""From a stream, a cluster's parameter and a number n: samples (n, d) and targets (n,) or (n, d), float32."""


def clusters_of(num_clients: int, num_clusters: int) -> np.ndarray:
    """The cluster of every client, (num_clients,): blocks of neighbours whose sizes differ by at most 1."""
    if num_clusters > num_clients:
        raise ConfigError(f"num_clusters={num_clusters} needs as many clients, got num_clients={num_clients}")
    return np.arange(num_clients) * num_clusters // num_clients


def mixture(seed: int, num_clients: int, points: int, test_points: int, truth: np.ndarray, draw: Draw) -> "Data":
    """``points`` samples for every client and ``test_points`` for every cluster; ``truth`` (k, d) are the parameters.

    Every client has its own random stream.
    """
    import torch

    from robustfl_bench.parts.datasets.base import Data

    clusters, every = clusters_of(num_clients, len(truth)), np.arange(len(truth))
    train = [draw(seeding.generator(seed, "client data", i), truth[c], points) for i, c in enumerate(clusters)]
    test = [draw(seeding.generator(seed, "test data", int(c)), truth[c], test_points) for c in every]
    train_x, train_y, test_x, test_y = (
        torch.from_numpy(np.concatenate(parts)) for parts in (*zip(*train, strict=True), *zip(*test, strict=True))
    )
    return Data(
        train_x,
        train_y,
        test_x,
        test_y,
        variant="generated",
        owners=torch.arange(num_clients).repeat_interleave(points),
        clusters=torch.from_numpy(clusters).repeat_interleave(points),
        test_clusters=torch.from_numpy(every).repeat_interleave(test_points),
        truth=torch.from_numpy(truth),
    )
