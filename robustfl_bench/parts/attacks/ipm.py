"""IPM, inner product manipulation (Xie et al., UAI 2019, https://arxiv.org/abs/1903.03936)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.base.fields import Number
from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class InnerProductManipulation(Attack):
    """All attackers send ``-scale`` times the mean honest update, so that the average may point uphill.

    BOBA uses 10, large enough to reverse the average: (100 - 15 * 10) / 115 < 0. With a small scale such as 0.1 the
    attackers hide among the honest updates instead; -1 sends the honest mean itself. Where clients send models,
    their mean is meant.
    """

    scale: Number = 10
    """attackers send -scale times the mean honest update"""

    by_columns = True

    def craft(self, view: AttackView) -> Tensor:
        return -self.scale * view.mean
