"""From a table of samples per client and class to index lists; shared by all label-skewed partitions."""

import numpy as np

from robustfl_bench.base.errors import ConfigError


def label_counts(labels: np.ndarray, parts: list[np.ndarray], num_classes: int) -> np.ndarray:
    """Number of samples of every class at every client, (n, c) int64."""
    return np.stack([np.bincount(labels[part], minlength=num_classes) for part in parts])


def check_clients(labels: np.ndarray, num_clients: int) -> None:
    """Raise ConfigError if there are fewer samples than clients."""
    if num_clients < 1:
        raise ConfigError(f"num_clients must be >= 1, got {num_clients}")
    if len(labels) < num_clients:
        raise ConfigError(f"{len(labels)} samples cannot be split over {num_clients} clients; lower num_clients")


def share(sizes: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Split every class over the clients in proportion to its column of ``weights`` (n, c); returns integers (n, c).

    A column adds up to the class's entry of ``sizes`` (c,). Entries are within 1 of the exact proportion. Clients take
    their parts in random order, so that rounding favours no client.
    """
    counts = np.zeros(weights.shape, dtype=np.int64)
    for label, size in enumerate(sizes):
        order = rng.permutation(len(weights))
        reached = np.cumsum(weights[order, label])
        bounds = np.floor(size * (reached / reached[-1]) + 0.5).astype(np.int64)
        counts[order, label] = np.diff(bounds, prepend=0)
    return counts


def deal(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Give every client its ``counts`` (n, c) of samples, drawn at random within the classes; all samples are dealt.

    Column j belongs to the j-th smallest label present. Raises ConfigError if a client would get no samples.
    """
    empty = np.flatnonzero(counts.sum(axis=1) == 0)
    if len(empty):
        raise ConfigError(
            f"{len(empty)} of {len(counts)} clients would get no samples (client {empty[0]} first);"
            " lower num_clients, or make the partition less skewed"
        )
    parts: list[list[np.ndarray]] = [[] for _ in counts]
    for column, label in enumerate(np.unique(labels)):
        shuffled = rng.permutation(np.flatnonzero(labels == label))
        for part, piece in zip(parts, np.split(shuffled, np.cumsum(counts[:-1, column])), strict=True):
            part.append(piece)
    return [np.concatenate(part) for part in parts]
