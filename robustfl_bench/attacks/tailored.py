"""The honest mean, moved as far as most harms the rule in use (Shejwalkar and Houmansadr, NDSS 2021, section IV)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.attacks.harm import HARMS, Harm, harms
from robustfl_bench.attacks.perturbation import PERTURBATIONS, perturbation
from robustfl_bench.base.errors import check_choice, check_fields


@dataclass(frozen=True)
class Tailored(Attack):
    """All attackers send mean + gamma * p with the gamma for which the aggregate of the server's rule is most harmful.

    They try ``evaluations`` gammas a round on the rule itself, and call it once more for the honest mean. Half of the
    gammas are ``gamma_init``, twice that, four times ..., the others are around the best of these. ``perturbation`` p
    is ``std``, ``inverse_std``, ``unit`` or ``sign``.

    ``harm`` null is the paper's harm: the Euclidean distance of the aggregate from the aggregate when the attackers
    send the honest mean. A large distance may also help training, as a longer step does. ``loss`` is the honest
    clients' loss after the step; ``error`` and ``slope`` are as in ``harm.harms``.
    """

    perturbation: str = "inverse_std"
    gamma_init: float = 0.25
    evaluations: int = 12
    harm: str | None = None

    def __post_init__(self) -> None:
        check_choice("perturbation", self.perturbation, PERTURBATIONS)
        check_fields(self, gamma_init=(1e-12, math.inf), evaluations=(1, math.inf))
        if self.harm is not None:
            check_choice("harm", self.harm, HARMS)

    def craft(self, view: AttackView) -> Tensor:
        direction = perturbation(view, self.perturbation)
        calm = view.aggregate(view.mean).vector

        def found(gamma: float) -> Harm:
            return harms(view, self.harm or "distance", [view.aggregate(view.mean + gamma * direction).vector], calm)[0]

        first = (self.evaluations + 1) // 2
        best, gamma = max((found(gamma), gamma) for gamma in (math.ldexp(self.gamma_init, k) for k in range(first)))
        step = gamma / 2
        for _ in range(self.evaluations - first):
            reached = found(gamma + step)
            if reached > best:
                best, gamma = reached, gamma + step
            else:  # try the other side, then half as far
                step = -step if step > 0 else -step / 2
        return view.mean + gamma * direction
