"""False losses: bad data and a reported loss that looks perfect, against rules that trust losses (ours)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.wrapped import Wrapped


@dataclass(frozen=True)
class FakeLoss(Wrapped):
    """The attackers apply ``attack`` and report the training loss ``loss`` instead of their true one.

    This is the limitation that ARFL's authors name (Li et al., arXiv 2101.05880, section 6): with the shuffled labels
    of the default, the false loss gives the worst clients the largest weights. Rules that use no losses see ``attack``
    alone.
    """

    loss: Annotated[float, at_least(0)] = 0.0
    """the loss that attackers report"""

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        return torch.full_like(losses, self.loss)
