"""The honest mean, moved as far as most harms the rule in use (Shejwalkar and Houmansadr, NDSS 2021, section IV)."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView, Harm
from robustfl_bench.parts.attacks.harm import HARMS, harms
from robustfl_bench.parts.attacks.perturbation import PERTURBATIONS, perturbation


@dataclass(frozen=True)
class Tailored(Attack):
    """All attackers send mean + gamma * p with the gamma for which the aggregate of the server's rule is most harmful.

    They try ``evaluations`` gammas a round on the rule itself, and call it once more for the honest mean. Half of the
    gammas are ``gamma_init``, twice that, four times ..., the others are around the best of these.

    ``harm`` null is the paper's harm: the Euclidean distance of the aggregate from the aggregate when the attackers
    send the honest mean. A large distance may also help training, as a longer step does. ``loss`` is the honest
    clients' loss after the step; ``error`` and ``slope`` are as in ``harm.harms``.
    """

    perturbation: Annotated[str, one_of(**PERTURBATIONS)] = "inverse_std"
    """direction p in which the honest mean is moved"""
    gamma_init: Annotated[float, at_least(1e-12)] = 0.25
    """the first gamma; then twice, four times, ... this value"""
    evaluations: Annotated[int, at_least(1)] = 12
    """evaluations of the rule per round"""
    harm: Annotated[str | None, one_of(**HARMS, null="the shift of the aggregate")] = None
    """what attackers maximise"""

    def craft(self, view: AttackView) -> Tensor:
        direction = perturbation(view, self.perturbation)
        calm = view.aggregate(view.mean).vector

        def found(*gammas: float) -> list[Harm]:
            candidates = torch.stack([view.mean + gamma * direction for gamma in gammas])[:, None]
            return harms(view, self.harm or "distance", list(view.aggregate_many(candidates)), calm)

        first = (self.evaluations + 1) // 2
        gammas = [math.ldexp(self.gamma_init, k) for k in range(first)]
        best, gamma = max(zip(found(*gammas), gammas, strict=True))
        step = gamma / 2
        for _ in range(self.evaluations - first):
            (reached,) = found(gamma + step)
            if reached > best:
                best, gamma = reached, gamma + step
            else:  # try the other side, then half as far
                step = -step if step > 0 else -step / 2
        return view.mean + gamma * direction
