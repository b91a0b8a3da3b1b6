"""Three-Stage: cluster the clients once, by their local minimisers, then train (Ghosh et al., arXiv 1906.06629).

It is the baseline of BRIFCA (Tao, Yang, Kulkarni, arXiv 2306.00638, section 6), with the authors' choices as options.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, at_least, between, one_of
from robustfl_bench.parts.clustering.base import Clustering, StartView
from robustfl_bench.parts.clustering.kmeans import seeds, sq_dists, trimmed_cost, trimmed_kmeans
from robustfl_bench.parts.clustering.minimisers import ERMS, local_minimisers
from robustfl_bench.parts.clustering.start import INITS, initial_models, onto_ball


@dataclass(frozen=True)
class ThreeStage(Clustering):
    """Each cluster of clients trains its own model; clients are clustered once, by their local minimisers.

    Stage 1: every client, Byzantine ones included, sends the minimiser of its loss (``erm``, see minimisers.py). Stage
    2: trimmed k-means of the minimisers, at most ``max_iter`` iterations; a share ``keep`` of a cluster forms its
    centre. Stage 3: each cohort trains a model with the rule of the run, from ``init`` (see start.py), or from the
    centres of stage 2 with ``centres``.

    ``kmeans_init`` sets the initial centres. ``restarts`` takes the best of ``restarts`` starts by trimmed cost, each
    by k-means++ without the farthest points. ``random`` starts once from random clients. ``oracle`` starts, as in the
    published figure, from the means of the honest minimisers of each true cluster. ``unit_norm`` uses that the truth
    has norm 1.
    """

    num_clusters: Annotated[int, at_least(1)]
    """number of models k; by default the number of clusters in the data"""
    erm: Annotated[str, one_of(**ERMS)] = "lstsq"
    """local minimisers"""
    kmeans_init: Annotated[
        str, one_of(restarts="the best of several k-means++", random="clients", oracle="true clusters, as published")
    ] = "restarts"
    """initial centres of k-means"""
    restarts: Annotated[int, at_least(1)] = 10
    """number of restarts; the one with the least trimmed cost is used"""
    max_iter: Annotated[int, at_least(1)] = 100
    """maximum number of rounds of k-means"""
    keep: Annotated[float, between(0, 1)] = 0.95
    """share of a cluster's points, the nearest, whose mean is its centre"""
    init: Annotated[str, one_of(**INITS, centres="of k-means")] = "model"
    """initial models of stage 3"""
    warm_radius: Annotated[float, at_least(0)] = 0.25
    """for warm: distance from the truth, as a multiple of the least distance between true parameters"""
    radius: Annotated[float | None, at_least(0)] = None
    """radius of the ball onto which models are projected after every step; null: no projection"""
    unit_norm: Flag = False
    """true: models are scaled to length 1 after every step (authors' code)"""

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
