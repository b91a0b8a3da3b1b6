"""Random assignment of shards, of one class each, to clients."""

import numpy as np

from robustfl_bench.base.errors import ConfigError


def shards_per_class(sizes: np.ndarray, num_shards: int) -> np.ndarray:
    """Number of shards of every class, (c,), adding up to ``num_shards``.

    Equal where the total is a multiple of the number of classes (MNIST: 200 = 20 per class, whose shards then differ
    a little in size), else proportional to the class sizes, rounded by largest remainder, and at least 1.
    """
    if num_shards < len(sizes):
        raise ConfigError(
            f"{num_shards} shards are fewer than the {len(sizes)} classes, but each shard holds one class;"
            " raise num_clients or the number of shards per client"
        )
    if num_shards % len(sizes) == 0:
        return np.full(len(sizes), num_shards // len(sizes))
    spare = num_shards - len(sizes)  # every class has one shard already; the others are divided in proportion
    exact = np.maximum(num_shards * sizes / sizes.sum() - 1, 0)
    exact *= spare / exact.sum()
    shards: np.ndarray = 1 + np.floor(exact).astype(np.int64)
    largest_remainders = np.argsort(shards - exact, kind="stable")[: num_shards - shards.sum()]
    shards[largest_remainders] += 1
    return shards


def deal_shards(sizes: np.ndarray, num_clients: int, per_client: int, rng: np.random.Generator) -> np.ndarray:
    """Deal ``per_client`` random shards to every client; returns its number of shards of each class, (n, c)."""
    shards = np.repeat(np.arange(len(sizes)), shards_per_class(sizes, num_clients * per_client))
    held = np.zeros((num_clients, len(sizes)), dtype=np.int64)
    np.add.at(held, (np.repeat(np.arange(num_clients), per_client), rng.permutation(shards)), 1)
    return held
