"""Attackers that report a number of samples that they do not have (ours)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.wrapped import Wrapped


@dataclass(frozen=True)
class Claiming(Wrapped):
    """The attackers of ``attack`` report ``samples`` samples each, whatever they have.

    Rules that count clients by their samples believe them. The setting ``claim_samples`` makes this attack of any
    other.
    """

    samples: Annotated[float, at_least(1)] = 1
    """what each attacker reports"""

    def claim(self, counts: Tensor) -> Tensor:
        return torch.full_like(counts, self.samples)
