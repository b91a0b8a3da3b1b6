"""Gauss: noise instead of updates (Blanchard et al., NeurIPS 2017, https://arxiv.org/abs/1703.02757)."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class Gauss(Attack):
    """Every attacker sends its own draw of N(0, variance I), independent of the honest updates.

    The default standard deviation is 200, as in Blanchard et al. BOBA (Bao et al., AISTATS 2024, appendix C.1) prints a
    covariance of 200 I, with which the mean ends at 58% accuracy on MNIST; its tables have 9.8%.
    """

    variance: Annotated[float, at_least(0)] = 40_000
    """variance of every coordinate"""
    std: Annotated[float | None, at_least(0)] = None
    """standard deviation, given directly; null: the square root of the variance"""

    by_columns = True

    def craft(self, view: AttackView) -> Tensor:
        rows = view.rng.standard_normal((view.num_byzantine, view.honest.d), dtype=np.float32)
        rows *= math.sqrt(self.variance) if self.std is None else self.std
        return view.honest.place.share(torch.from_numpy(rows).to(view.honest.device))
