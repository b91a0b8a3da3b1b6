"""Moving the honest mean as far as a constraint on distances allows: what Min-Max and Min-Sum share.

Shejwalkar and Houmansadr, NDSS 2021, "Manipulating the Byzantine", Algorithm 1.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.interfaces import AttackView, check_choice

PERTURBATIONS = ("std", "inverse_std", "unit", "sign")


def perturbation(view: AttackView, kind: str) -> Tensor:
    """The direction p, (d,), along which the mean of the honest gradients moves.

    ``std`` is the standard deviation per coordinate (n - 1 in the denominator), which BOBA's numbers show; the
    original's ``inverse_std`` is minus that, ``unit`` minus the mean divided by its length, ``sign`` minus the sign of
    the mean; where clients send models, of what these have learned. Inverse on what clients add to the model is not
    inverse on gradients, which they subtract.
    """
    check_choice("perturbation", kind, PERTURBATIONS)
    if kind == "std":
        return view.std
    if kind == "inverse_std":
        return -view.std
    learned = view.mean - view.upload(torch.zeros_like(view.mean))
    if kind == "sign":
        return -learned.sign()
    length = float(torch.linalg.vector_norm(learned, dtype=torch.float64))
    return -learned if length == 0 else -(learned.double() / length).float()


def sq_dists_along(view: AttackView, direction: Tensor) -> Callable[[float], np.ndarray]:
    """A function: gamma to the squared distances (h,) of ``mean + gamma * direction`` from every honest update.

    With mean m and direction p, ``|m + gamma p - g_i|^2 = |m - g_i|^2 + 2 gamma <p, m - g_i> + gamma^2 |p|^2``. The
    coefficients take the Gram matrix and one pass over the updates; each gamma after that costs only h operations.
    """
    gram = view.honest.gram.cpu().numpy()
    along = view.honest.cross(direction[None]).squeeze(1).cpu().numpy()  # <p, g_i>
    constant = np.maximum(gram.diagonal() - 2 * gram.mean(axis=1) + gram.mean(), 0)
    linear = along.mean() - along
    square = float(direction.double().square().sum())
    return lambda gamma: constant + 2 * gamma * linear + gamma**2 * square


def largest_gamma(allowed: Callable[[float], bool], gamma_init: float, tau: float) -> float:
    """The authors' search: a gamma at which ``allowed`` holds, to within ``tau`` of one at which it does not.

    Starts at ``gamma_init`` and moves by half of it, a quarter, ...: up when allowed, down when not. So it stays below
    2 * gamma_init, and is 0 when no gamma tried is allowed.
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
