"""Adaptive: the attack made for BRACE (Fang et al., WWW Companion 2025), votes against every honest decision.

The paper cites Shejwalkar and Houmansadr, NDSS 2021, and does not define it; this is the strongest against its rule.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, check_fields
from robustfl_bench.updates import mean_row


@dataclass(frozen=True)
class Adaptive(Attack):
    """All attackers send the opposite of what the honest votes decide, +1 above ``threshold`` and else -1.

    Each of the b attackers then lowers the lead of a decision by one vote and nothing moves sums farther: coordinates
    where honest votes add up to between threshold - b and threshold + b can change sides. The size is ``factor`` times
    the mean size of the honest values of the coordinate, which signs ignore and averages do not.
    """

    threshold: float = 5
    factor: float = 1

    def __post_init__(self) -> None:
        check_fields(self, threshold=(0, math.inf), factor=(0, math.inf))

    def craft(self, view: AttackView) -> Tensor:
        size = self.factor * mean_row(view.honest.matrix.abs())
        return size.where(view.honest.votes <= self.threshold, -size)
