"""Adaptive: the attack on BRACE (Fang et al., WWW Companion 2025), which votes against every honest decision.

The paper cites Shejwalkar and Houmansadr, NDSS 2021, for the attack and does not define it; this one is the strongest
against the paper's rule.
"""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.updates import mean_row
from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class Adaptive(Attack):
    """All attackers vote against the decision of the honest votes, which is +1 above ``threshold`` and else -1.

    Each of the b attackers then moves a sum of votes by one towards the other decision, the most that one vote can do.
    Coordinates whose honest votes add up to between threshold - b and threshold + b can change sides. The size of the
    sent values is ``factor`` times the mean size of the honest values of the coordinate: sign-based rules ignore the
    size, averages do not.
    """

    whole_matrices = 1

    threshold: Annotated[float, at_least(0)] = 5
    """lambda of the attacked rule"""
    factor: Annotated[float, at_least(0)] = 1
    """size of a value that attackers send, in mean sizes of the honest values"""

    by_columns = True

    def craft(self, view: AttackView) -> Tensor:
        size = self.factor * mean_row(view.honest.columns.abs())
        return size.where(view.honest.votes <= self.threshold, -size)
