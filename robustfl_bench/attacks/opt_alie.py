"""ALIE at the strength that hurts the rule in use most (Baruch et al., NeurIPS 2019; the line search as in Allouah et
al., AISTATS 2023, https://arxiv.org/abs/2302.01772)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.attacks.line_search import OBJECTIVES, harm, line_maximum
from robustfl_bench.base.errors import check_choice, check_fields


@dataclass(frozen=True)
class OptimalLittleIsEnough(Attack):
    """All attackers send the mean honest update, moved by z standard deviations in every coordinate, with the z >= 0
    that does the most harm.

    They try ``evaluations`` values of z a round on the rule itself: 0, then steps that start at ``step`` and double
    while the harm grows, then steps that shrink by ``ratio``. ``objective`` is the harm: the ``distance`` of the
    aggregate from the honest mean, as in Allouah et al. and ByzFL, or the ``loss`` of the honest clients, to first
    order. ``sign`` is the side: plus as in ``lie`` and ByzFL, or minus.
    """

    sign: str = "plus"
    objective: str = "distance"
    evaluations: int = 20
    step: float = 1
    ratio: float = 0.8

    def __post_init__(self) -> None:
        check_choice("sign", self.sign, ("minus", "plus"))
        check_choice("objective", self.objective, OBJECTIVES)
        check_fields(self, evaluations=(1, math.inf), step=(1e-12, math.inf), ratio=(0, 1))

    def craft(self, view: AttackView) -> Tensor:
        direction = view.std if self.sign == "plus" else -view.std
        measured = harm(view, self.objective)
        z = line_maximum(lambda z: measured(view.mean + z * direction), self.evaluations, self.step, self.ratio)
        return view.mean + z * direction
