"""The base class of the server's own samples."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from robustfl_bench.base.abilities import Part
from robustfl_bench.parts.corruptions.base import Corruption

if TYPE_CHECKING:
    import numpy as np


class ServerData(Part):
    """The server's own labelled samples. ``corruption`` changes their images."""

    corruption: Corruption | None = None

    @abstractmethod
    def __call__(self, labels: np.ndarray, num_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Sample indices, one array per class; ``labels`` is (N,) int64. Raises ConfigError if samples are lacking."""
