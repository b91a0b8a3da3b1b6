"""IPM at the strength that hurts the rule in use most (Xie et al., UAI 2019; the line search as in Allouah et al.,
AISTATS 2023, https://arxiv.org/abs/2302.01772, who call it Fall of Empires)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView
from robustfl_bench.parts.attacks.line_search import OBJECTIVES, SEARCHES, harms_of, maximum


@dataclass(frozen=True)
class OptimalInnerProductManipulation(Attack):
    """All attackers send ``(1 - tau)`` times the mean honest update, with the tau >= 0 that does the most harm.

    They ask the rule itself for the harm of ``evaluations`` values of tau a round, chosen as by ``opt_alie``. tau is 1
    plus the scale of ``ipm``.

    Code: as for ``opt_alie``. ByzFL's search begins at tau = 1, where the attackers send zeros.
    """

    objective: Annotated[str, one_of(**OBJECTIVES)] = "distance"
    """the harm to maximise"""
    evaluations: Annotated[int, at_least(1)] = 20
    """evaluations of the rule per round"""
    step: Annotated[float, at_least(1e-12)] = 1
    """the first step away from the honest mean, or the unit of the grid, in multiples of its length"""
    ratio: Annotated[float, between(0, 1)] = 0.8
    """factor of each step after the first step without gain; the grid does not use it"""
    search: Annotated[str | None, one_of(**SEARCHES)] = None
    """the strengths tried"""

    def craft(self, view: AttackView) -> Tensor:
        update, measured = view.upload(view.mean), harms_of(view, self.objective)
        first = 1.0 if self.search == "byzfl" else 0.0

        def sent(more: float) -> Tensor:
            return view.upload((1 - first - more) * update)

        def values(numbers: Sequence[float]) -> list[float]:
            return measured([sent(more) for more in numbers])

        return sent(maximum(values, self.search, self.evaluations, self.step, self.ratio))
