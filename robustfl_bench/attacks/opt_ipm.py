"""IPM at the strength that hurts the rule in use most (Xie et al., UAI 2019; the line search as in Allouah et al.,
AISTATS 2023, https://arxiv.org/abs/2302.01772, who call it Fall of Empires)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.attacks.line_search import OBJECTIVES, harm, line_maximum
from robustfl_bench.base.errors import check_choice, check_fields


@dataclass(frozen=True)
class OptimalInnerProductManipulation(Attack):
    """All attackers send ``(1 - tau)`` times the mean honest update, with the tau >= 0 that does the most harm.

    They try ``evaluations`` values of tau a round on the rule itself: 0, then steps that start at ``step`` and double
    while the harm grows, then steps that shrink by ``ratio``. ``objective`` is the harm: the ``distance`` of the
    aggregate from the honest mean, as in Allouah et al. and ByzFL, or the ``loss`` of the honest clients, to first
    order. tau is 1 plus the scale of ``ipm``.
    """

    objective: str = "distance"
    evaluations: int = 20
    step: float = 1
    ratio: float = 0.8

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, OBJECTIVES)
        check_fields(self, evaluations=(1, math.inf), step=(1e-12, math.inf), ratio=(0, 1))

    def craft(self, view: AttackView) -> Tensor:
        update, measured = view.upload(view.mean), harm(view, self.objective)

        def sent(tau: float) -> Tensor:
            return view.upload((1 - tau) * update)

        return sent(line_maximum(lambda tau: measured(sent(tau)), self.evaluations, self.step, self.ratio))
