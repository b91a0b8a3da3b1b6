"""ALIE at the strength that hurts the rule in use most (Baruch et al., NeurIPS 2019; the line search as in Allouah et
al., AISTATS 2023, https://arxiv.org/abs/2302.01772)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.attacks.line_search import OBJECTIVES, harm, line_maximum
from robustfl_bench.base.fields import at_least, between, one_of


@dataclass(frozen=True)
class OptimalLittleIsEnough(Attack):
    """All attackers send the mean honest update, moved by z standard deviations in every coordinate, with the z >= 0
    that does the most harm.

    They try ``evaluations`` values of z a round on the rule itself: 0, then steps that start at ``step`` and double
    while the harm grows, then steps that shrink by ``ratio``. Allouah et al. and ByzFL maximise the distance, on the
    side plus.
    """

    sign: Annotated[str, one_of("minus", "plus")] = "plus"
    """side of the honest mean gradient"""
    objective: Annotated[str, one_of(**OBJECTIVES)] = "distance"
    """the harm to maximise"""
    evaluations: Annotated[int, at_least(1)] = 20
    """evaluations of the rule per round"""
    step: Annotated[float, at_least(1e-12)] = 1
    """the first step away from the honest mean, in standard deviations"""
    ratio: Annotated[float, between(0, 1)] = 0.8
    """factor of each step after the first step without gain"""

    def craft(self, view: AttackView) -> Tensor:
        direction = view.std if self.sign == "plus" else -view.std
        measured = harm(view, self.objective)
        z = line_maximum(lambda z: measured(view.mean + z * direction), self.evaluations, self.step, self.ratio)
        return view.mean + z * direction
