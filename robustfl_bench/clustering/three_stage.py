"""Three-Stage: cluster the clients once, by their local minimisers, then train (Ghosh et al., arXiv 1906.06629).

It is the baseline of BRIFCA (Tao, Yang, Kulkarni, arXiv 2306.00638, section 6), with the authors' choices as options.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError, check_choice, check_fields, check_flags
from robustfl_bench.clustering.base import Clustering, StartView
from robustfl_bench.clustering.kmeans import seeds, sq_dists, trimmed_cost, trimmed_kmeans
from robustfl_bench.clustering.minimisers import ERMS, local_minimisers
from robustfl_bench.clustering.start import INITS, initial_models, onto_ball


@dataclass(frozen=True)
class ThreeStage(Clustering):
    """Each cluster of clients trains its own model; clients are clustered once, by their local minimisers.

    Stage 1: every client, Byzantine ones included, sends the minimiser of its loss (``erm``, see minimisers.py).
    Stage 2: trimmed k-means of the minimisers, at most ``max_iter`` iterations; a share ``keep`` of a cluster forms its
    centre. Stage 3: each cohort trains a model with the rule of the run, from ``init`` (see start.py), or from the
    centres of stage 2 with ``centres``.

    ``kmeans_init`` sets the initial centres. ``restarts`` takes the best of ``restarts`` starts by trimmed cost, each
    by k-means++ without the farthest points. ``random`` starts once from random clients. ``oracle`` starts, as in the
    published figure, from the means of the honest minimisers of each true cluster. ``unit_norm`` divides a model by its
    length after every step, as the authors' code does, which thus uses that the truth has norm 1. ``radius`` is as in
    IFCA.
    """

    num_clusters: int
    erm: str = "lstsq"
    kmeans_init: str = "restarts"
    restarts: int = 10
    max_iter: int = 100
    keep: float = 0.95
    init: str = "model"
    warm_radius: float = 0.25
    radius: float | None = None
    unit_norm: bool = False

    def __post_init__(self) -> None:
        check_fields(self, num_clusters=(1, math.inf), restarts=(1, math.inf), max_iter=(1, math.inf), keep=(0, 1))
        check_fields(self, warm_radius=(0, math.inf))
        check_choice("erm", self.erm, ERMS)
        check_choice("kmeans_init", self.kmeans_init, ("restarts", "random", "oracle"))
        check_choice("init", self.init, (*INITS, "centres"))
        if self.radius is not None:
            check_fields(self, radius=(0, math.inf))
        check_flags(self, "unit_norm")

    def start(self, view: StartView) -> tuple[Tensor, Tensor | None]:
        """Initial models (k, d), and the index of each client's model (clients,), which stays fixed."""
        points = local_minimisers(view.module, view.clients(), self.erm)
        if len(points) < self.num_clusters:
            raise ConfigError(f"num_clusters={self.num_clusters} needs as many clients, got {len(points)}")
        labels, centres = self._clustered(points, view)
        if self.init == "centres":
            models = torch.from_numpy(centres).to(view.initial(0))
        else:
            models = initial_models(view, self.num_clusters, self.init, self.warm_radius)
        return models, torch.from_numpy(labels)

    def _clustered(self, points: np.ndarray, view: StartView) -> tuple[np.ndarray, np.ndarray]:
        """Stage 2: labels (clients,) and centres (k, d)."""
        rng, k = view.rng(view.seed, "k-means"), self.num_clusters
        if self.kmeans_init == "oracle":
            if view.clusters is None or view.clusters.max() + 1 != k:
                raise ConfigError(f"kmeans_init=oracle needs a data set with {k} true clusters; take restarts")
            starts = [np.stack([points[view.clusters == cluster].mean(axis=0) for cluster in range(k)])]
        elif self.kmeans_init == "random":
            starts = [points[rng.choice(len(points), size=k, replace=False)]]
        else:
            starts = [seeds(points, k, self.keep, rng) for _ in range(self.restarts)]
        results = [trimmed_kmeans(points, centres, self.keep, self.max_iter) for centres in starts]
        costs = [trimmed_cost(sq_dists(points, centres).min(axis=1), self.keep) for _, centres in results]
        return results[int(np.argmin(costs))]

    def project(self, params: Tensor) -> Tensor:
        """The model (d,), scaled to length 1 with ``unit_norm``, then projected onto the ball."""
        if self.unit_norm:
            params = params / torch.linalg.vector_norm(params)
        return onto_ball(params, self.radius)
