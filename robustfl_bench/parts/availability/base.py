"""The base class of client availability."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from robustfl_bench.base.abilities import Part

if TYPE_CHECKING:
    import numpy as np

    from robustfl_bench.parts.local_updates.base import LocalUpdate


class Availability(Part):
    """Decides which participating clients deliver an update, and how much of their local work they do.

    Byzantine clients always deliver unless ``byzantine`` is True.
    """

    byzantine: bool = False

    def check(self, local_update: LocalUpdate) -> None:
        """Raise ConfigError if clients with this local update cannot do part of their work."""

    @abstractmethod
    def __call__(self, num_clients: int, rng: np.random.Generator) -> np.ndarray:
        """The share of its local work that every client does in a round, (num_clients,) float64 in [0, 1]; with 0, its
        update does not arrive. ``rng`` is the round's own stream, the same for all attacks and rules."""
