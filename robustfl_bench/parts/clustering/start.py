"""Initial models of a clustering, and their projection onto a ball."""

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.bernoulli import bernoulli_vectors
from robustfl_bench.parts.clustering.base import StartView

INITS = {"model": "its own initialisation", "bernoulli": "", "fixed_seed0": "", "warm": "near the truth"}


def initial_models(view: StartView, count: int, init: str, warm_radius: float) -> Tensor:
    """The ``count`` initial models, (k, d) float32.

    ``model``: the network's default initialisation, drawn independently for each model. ``bernoulli``: coordinates
    Bernoulli(0.5), scaled to norm 1, like the true parameters of BRIFCA's regressions but independent of them.
    ``fixed_seed0``: the true parameters that seed 0 draws for such data, the same in all trials and equal to the truth
    with seed 0. ``warm``: the true parameters, each moved in a random direction by ``warm_radius`` times the least
    distance between two of them (the theory requires at most 1/4).
    """
    if init == "model":
        return torch.stack([view.initial(number) for number in range(count)])
    like = view.initial(0)
    if init == "warm":
        vectors = _near_truth(view, count, warm_radius)
    else:
        seed, name = (view.seed, "initial models") if init == "bernoulli" else (0, "true parameters")
        vectors = bernoulli_vectors(count, len(like), 1.0, view.rng(seed, name))
    return torch.from_numpy(vectors).to(like)


def _near_truth(view: StartView, count: int, warm_radius: float) -> np.ndarray:
    if view.truth is None or len(view.truth) != count:
        known = 0 if view.truth is None else len(view.truth)
        raise ConfigError(f"init=warm needs true parameters of {count} clusters, but the data set has {known}")
    truth = view.truth.cpu().numpy()
    distances = np.linalg.norm(truth[:, None] - truth, axis=2)[np.triu_indices(count, 1)] if count > 1 else np.ones(1)
    directions = view.rng(view.seed, "initial models").standard_normal(truth.shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    moved: np.ndarray = truth + warm_radius * distances.min() * directions
    return moved


def onto_ball(params: Tensor, radius: float | None) -> Tensor:
    """The point (d,) nearest to ``params`` in the ball of ``radius`` around 0; without a radius, ``params`` itself."""
    if radius is None:
        return params
    shrink: Tensor = (radius / torch.linalg.vector_norm(params)).clamp(max=1)
    return params * shrink
