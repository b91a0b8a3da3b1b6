"""The honest mean moved as far as it hurts the very rule in use (Shejwalkar and Houmansadr, NDSS 2021, section IV)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.attacks.perturbation import PERTURBATIONS, perturbation
from robustfl_bench.interfaces import Attack, AttackView, check_choice, check_fields


@dataclass(frozen=True)
class Tailored(Attack):
    """All attackers send mean + gamma * p with the gamma that moves the server's aggregate farthest.

    They ask the rule itself, ``evaluations`` times a round: how far, in Euclidean distance, its aggregate is from the
    one they would get by sending the honest mean. Half of the questions are about gamma = ``gamma_init``, twice that,
    four times ..., the others look around the best of these. ``perturbation`` p is ``std``, ``inverse_std``,
    ``unit`` or ``sign``.
    """

    perturbation: str = "inverse_std"
    gamma_init: float = 0.25
    evaluations: int = 12

    def __post_init__(self) -> None:
        check_choice("perturbation", self.perturbation, PERTURBATIONS)
        check_fields(self, gamma_init=(1e-12, math.inf), evaluations=(1, math.inf))

    def craft(self, view: AttackView) -> Tensor:
        direction = perturbation(view, self.perturbation)
        calm = view.aggregate(view.mean).vector

        def moved(gamma: float) -> float:
            there = view.aggregate(view.mean + gamma * direction).vector
            return float(torch.linalg.vector_norm(there.double() - calm.double()))

        first = (self.evaluations + 1) // 2
        best, gamma = max((moved(gamma), gamma) for gamma in (math.ldexp(self.gamma_init, k) for k in range(first)))
        step = gamma / 2
        for _ in range(self.evaluations - first):
            distance = moved(gamma + step)
            if distance > best:
                best, gamma = distance, gamma + step
            else:  # the other side, and after that half as far
                step = -step if step > 0 else -step / 2
        return view.mean + gamma * direction
