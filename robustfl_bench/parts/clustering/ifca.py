"""IFCA: clients pick the model that suits them, and train it (Ghosh, Chung, Yin, Ramchandran, NeurIPS 2020).

With a robust rule, IFCA is Algorithm 1 of Byzantine-Robust Clustered Federated Learning (BRIFCA; Tao, Yang, Kulkarni,
arXiv 2306.00638): its option I is the coordinate-wise median, its option II the trimmed mean by share.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from torch import Tensor

from robustfl_bench.base.fields import Flag, at_least, one_of
from robustfl_bench.parts.clustering.base import Clustering, StartView
from robustfl_bench.parts.clustering.start import INITS, initial_models, onto_ball


@dataclass(frozen=True)
class Ifca(Clustering):
    """``num_clusters`` models; every round each client trains the model of least loss on its own data.

    ``init`` and ``warm_radius`` set the initial models (see start.py). With ``empty`` random, the client that trains a
    model trains no other. ``radius`` is line 13 of Algorithm 1. ``scale_by_share`` multiplies each model's step by the
    model's share of the clients.

    Code: IFCA's and BRIFCA's authors divide the gradients of a cohort by the number of all clients, which is
    ``scale_by_share`` with ``average``. BRIFCA's, as of May 2023, start from the true parameters that seed 0 draws
    (``init=fixed_seed0``).
    """

    num_clusters: Annotated[int, at_least(1)]
    """number of models k; by default the number of clusters in the data"""
    init: Annotated[str, one_of(**INITS)] = "model"
    """initial models"""
    warm_radius: Annotated[float, at_least(0)] = 0.25
    """for warm: distance from the truth, as a multiple of the least distance between true parameters"""
    empty: Annotated[str, one_of(keep="stays unchanged", random="trained by a random client, authors' code")] = "keep"
    """a model without clients"""
    radius: Annotated[float | None, at_least(0)] = None
    """radius of the ball onto which models are projected after every step; null: no projection"""
    scale_by_share: Flag = False
    """true: scales a step by the group's share of the clients (authors' code, for average)"""

    def start(self, view: StartView) -> tuple[Tensor, Tensor | None]:
        """Initial models (k, d); the cohorts change from round to round."""
        return initial_models(view, self.num_clusters, self.init, self.warm_radius), None

    def fill(self, choice: Tensor, rng: np.random.Generator) -> Tensor:
        """The choices (n,) of all clients of the round, after each model that no client chose drew a random client."""
        if self.empty == "keep":
            return choice
        filled = choice.clone()
        unused = set(range(self.num_clusters)) - set(choice.unique().tolist())
        for model, client in zip(sorted(unused), rng.integers(len(choice), size=len(unused)), strict=True):
            filled[client] = model
        return filled

    def step_scale(self, share: float) -> float:
        """The model's share of the clients, with ``scale_by_share``."""
        return share if self.scale_by_share else 1.0

    def project(self, params: Tensor) -> Tensor:
        """The point (d,) of the ball nearest to ``params``."""
        return onto_ball(params, self.radius)
