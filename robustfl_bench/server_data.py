"""The server's own labelled samples."""

import math
from dataclasses import dataclass

import numpy as np

from robustfl_bench.interfaces import ConfigError, check_fields


@dataclass(frozen=True)
class ServerData:
    """``samples_per_class`` samples of every class, drawn from the training set and also left with the clients.

    BOBA, section 6: 20 per class for MNIST and CIFAR-10, 30 for AG-News; where they come from is not stated.
    """

    samples_per_class: int = 20

    def __post_init__(self) -> None:
        check_fields(self, samples_per_class=(1, math.inf))

    def __call__(self, labels: np.ndarray, num_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Sample indices, one array per class; ``labels`` is (N,) int64."""
        chosen = []
        for label in range(num_classes):
            own = np.flatnonzero(labels == label)
            if len(own) < self.samples_per_class:
                raise ConfigError(
                    f"server_data.samples_per_class={self.samples_per_class} but class {label} has {len(own)} samples"
                )
            chosen.append(rng.permutation(own)[: self.samples_per_class])
        return chosen
