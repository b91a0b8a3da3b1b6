"""ALIE at the strength that hurts the rule in use most (Baruch et al., NeurIPS 2019; the line search as in Allouah et
al., AISTATS 2023, https://arxiv.org/abs/2302.01772)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView
from robustfl_bench.parts.attacks.line_search import OBJECTIVES, SEARCHES, harms_of, maximum


@dataclass(frozen=True)
class OptimalLittleIsEnough(Attack):
    """All attackers send the mean honest update, moved by z standard deviations in every coordinate, with the z >= 0
    that does the most harm.

    They ask the rule itself for the harm of ``evaluations`` values of z a round: of 0, then of values that ``step``
    away and double this step while the harm grows, then of values back and forth around the best one, by steps that
    shrink by ``ratio``. This ends at the first peak that the steps meet. Under rules that reject clients, where the
    harm drops suddenly, that can be less than half of the largest harm. There ``search=grid`` finds more: it tries 0
    and values that double around ``step``, then values beside the best one.

    Code: the search is Allouah et al.'s, who ask 16 times (``evaluations=16``). ByzFL's (``search=byzfl`` with
    ``step=10``) makes no steps back and does less harm. Both maximise the distance, on the side plus.
    """

    sign: Annotated[str, one_of("minus", "plus")] = "plus"
    """side of the honest mean gradient"""
    objective: Annotated[str, one_of(**OBJECTIVES)] = "distance"
    """the harm to maximise"""
    evaluations: Annotated[int, at_least(1)] = 20
    """evaluations of the rule per round"""
    step: Annotated[float, at_least(1e-12)] = 1
    """the first step away from the honest mean, or the unit of the grid, in standard deviations"""
    ratio: Annotated[float, between(0, 1)] = 0.8
    """factor of each step after the first step without gain; the grid does not use it"""
    search: Annotated[str | None, one_of(**SEARCHES)] = None
    """the strengths tried"""

    def craft(self, view: AttackView) -> Tensor:
        direction = view.std if self.sign == "plus" else -view.std
        measured = harms_of(view, self.objective)

        def values(numbers: Sequence[float]) -> list[float]:
            return measured([view.mean + z * direction for z in numbers])

        return view.mean + maximum(values, self.search, self.evaluations, self.step, self.ratio) * direction
