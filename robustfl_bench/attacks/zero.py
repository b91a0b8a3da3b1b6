"""Zeros instead of updates: the same-value attack of RSA (Li et al., AAAI 2019) with the value 0."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView


@dataclass(frozen=True)
class Zero(Attack):
    """Every attacker sends zeros; where clients send models, a model of zeros.

    Zeros shorten an average, are near honest updates that are small, and make rules that divide by lengths divide by 0.
    """

    def craft(self, view: AttackView) -> Tensor:
        return torch.zeros_like(view.mean)
