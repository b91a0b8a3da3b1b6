"""Shifts of the honest mean under a constraint on distances, shared by Min-Max and Min-Sum.

Shejwalkar and Houmansadr, NDSS 2021, "Manipulating the Byzantine", Algorithm 1.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.parts.attacks.base import AttackView

PERTURBATIONS = {"std": "", "inverse_std": "per coordinate", "unit": "", "sign": "against the mean"}


def perturbation(view: AttackView, kind: str) -> Tensor:
    """The direction p, (d,), along which the attackers shift the mean of the honest updates.

    ``std`` is the standard deviation per coordinate (n - 1 in the denominator), which BOBA's numbers imply. The paper's
    ``inverse_std`` is minus that, ``unit`` minus the mean divided by its length, ``sign`` minus the sign of the mean.
    If clients send models, ``unit`` and ``sign`` use the mean model minus the received one. Inverse on differences that
    are added to the model is not inverse on gradients, which are subtracted.
    """
    if kind == "std":
        return view.std
    if kind == "inverse_std":
        return -view.std
    learned = view.mean - view.upload(torch.zeros_like(view.mean))
    if kind == "sign":
        return -learned.sign()
    length = float(view.honest.place.norm(torch.linalg.vector_norm(learned, dtype=torch.float64)))
    return -learned if length == 0 else -(learned.double() / length).float()


def sq_dists_along(view: AttackView, direction: Tensor) -> Callable[[float], np.ndarray]:
    """A function from gamma to the squared distances (h,) of ``mean + gamma * direction`` from every honest update.

    With mean m and direction p, ``|m + gamma p - g_i|^2 = |m - g_i|^2 + 2 gamma <p, m - g_i> + gamma^2 |p|^2``. The
    coefficients take the Gram matrix and one pass over the updates; then each gamma costs only h operations.
    """
    gram = view.honest.gram.cpu().numpy()
    along = view.honest.cross(direction[None]).squeeze(1).cpu().numpy()  # <p, g_i>
    constant = np.maximum(gram.diagonal() - 2 * gram.mean(axis=1) + gram.mean(), 0)
    linear = along.mean() - along
    square = float(view.honest.place.sum(direction.double().square().sum()))
    return lambda gamma: constant + 2 * gamma * linear + gamma**2 * square


def largest_gamma(allowed: Callable[[float], bool], gamma_init: float, tau: float) -> float:
    """The authors' search for the largest gamma at which ``allowed`` holds; returns the last allowed one that it tried.

    It starts at ``gamma_init`` and moves by half of it, a quarter, ...: up when allowed, down when not, until the next
    gamma is within ``tau`` of the last allowed one. The result is below 2 * gamma_init, and 0 when no gamma tried is
    allowed.
    """
    gamma = step = gamma_init
    success = 0.0
    while abs(success - gamma) > tau and gamma + step / 2 != gamma:
        step /= 2
        if allowed(gamma):
            success = gamma
            gamma += step
        else:
            gamma -= step
    return success
