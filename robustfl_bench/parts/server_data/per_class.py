"""The server's own labelled samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.corruptions.base import Corruption
from robustfl_bench.parts.server_data.base import ServerData


@dataclass(frozen=True)
class PerClass(ServerData):
    """``samples_per_class`` samples of every class, drawn from the training set; clients keep them too.

    A list gives each class its own number, and ``corruption`` changes the images (BOBA, appendices C.3.1 and C.3.2).
    BOBA, section 6, has 20 per class for MNIST and CIFAR-10 and 30 for AG-News; it does not state their origin.
    """

    samples_per_class: int | Sequence[int] = 20
    """samples of every class, or a list with a number for each class"""
    corruption: Corruption | None = None
    """changes the images; null: they stay as they are"""

    def __post_init__(self) -> None:
        given = self.samples_per_class
        numbers = list(given) if isinstance(given, Sequence) else [given]
        if not numbers or any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
            raise ConfigError(f"samples_per_class must be a whole number or a list of them, got {given!r}")
        if min(numbers) < 1:
            raise ConfigError(f"samples_per_class must be >= 1, got {given!r}")

    def __call__(self, labels: np.ndarray, num_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Sample indices, one array per class; ``labels`` is (N,) int64."""
        given = self.samples_per_class
        numbers = [given] * num_classes if isinstance(given, int) else list(given)
        if len(numbers) != num_classes:
            raise ConfigError(f"server_data.samples_per_class={given} needs one number per class, {num_classes}")
        chosen = []
        for label, number in enumerate(numbers):
            own = np.flatnonzero(labels == label)
            if len(own) < number:
                raise ConfigError(f"server_data.samples_per_class={given} but class {label} has {len(own)} samples")
            chosen.append(rng.permutation(own)[:number])
        return chosen
