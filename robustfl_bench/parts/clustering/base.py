"""The base class of clusterings, and the view that a clustering receives before training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robustfl_bench.base.abilities import Part

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn


@dataclass
class StartView:
    """The knowledge of a clustering before training starts.

    ``seed`` is the run's; ``rng`` returns the stream of a seed and a name. ``initial`` returns the model's initial
    parameters (d,), an independent draw for each number. ``truth`` (K, d) float64 are the true parameters if the data
    have them. ``clients`` gathers the samples (x, y) of every client, in the order of the clients, with those of
    Byzantine clients poisoned; ``clusters`` (clients,) are the clients' true clusters, -1 for Byzantine clients, or
    None. ``module`` is the network.
    """

    seed: int
    rng: Callable[..., np.random.Generator]
    initial: Callable[[int], Tensor]
    truth: Tensor | None
    clients: Callable[[], list[tuple[Tensor, Tensor]]]
    clusters: np.ndarray | None
    module: nn.Module


class Clustering(Part):
    """Trains ``num_clusters`` models at once, each by a cohort of the clients."""

    num_clusters: int

    @abstractmethod
    def start(self, view: StartView) -> tuple[Tensor, Tensor | None]:
        """Initial models (k, d), and each client's fixed model, (clients,) int64. With None instead, every client
        trains in each round the model of least loss on its own data."""

    def fill(self, choice: Tensor, rng: np.random.Generator) -> Tensor:
        """The choices (n,) int64 of all clients of a round, changed if a model that no client chose shall be
        trained."""
        return choice

    def step_scale(self, share: float) -> float:
        """Factor of the step size of a model that a ``share`` of the round's clients trained."""
        return 1.0

    def project(self, params: Tensor) -> Tensor:
        """The parameters (d,) of a model after the server's step, projected onto the allowed set."""
        return params
