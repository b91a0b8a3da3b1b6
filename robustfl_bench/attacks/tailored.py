"""The honest mean moved as far as it hurts the very rule in use (Shejwalkar and Houmansadr, NDSS 2021, section IV)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.attacks.perturbation import PERTURBATIONS, perturbation
from robustfl_bench.interfaces import Attack, AttackView, check_choice, check_fields


@dataclass(frozen=True)
class Tailored(Attack):
    """All attackers send mean - gamma * p with the gamma that moves the server's aggregate farthest.

    They ask the rule itself, ``evaluations`` times a round: how far, in Euclidean distance, its aggregate is from the
    one they would get by sending the honest mean. Gamma grows by ``gamma_init``, twice that, ... while the distance
    does, then goes back and forth by smaller and smaller steps. ``perturbation`` p is ``std``, ``unit`` or ``sign``.
    """

    perturbation: str = "std"
    gamma_init: float = 1
    evaluations: int = 12

    def __post_init__(self) -> None:
        check_choice("perturbation", self.perturbation, PERTURBATIONS)
        check_fields(self, gamma_init=(1e-12, math.inf), evaluations=(1, math.inf))

    def craft(self, view: AttackView) -> Tensor:
        direction = perturbation(view, self.perturbation)
        calm = view.aggregate(view.mean).vector
        gamma, moved, step, growing = 0.0, 0.0, float(self.gamma_init), True
        for _ in range(self.evaluations):
            there = view.aggregate(view.mean - (gamma + step) * direction).vector
            distance = float(torch.linalg.vector_norm(there - calm))
            better = distance > moved
            if better:
                gamma, moved = gamma + step, distance
            growing = growing and better
            step = 2 * step if growing else -step / 2
        return view.mean - gamma * direction
