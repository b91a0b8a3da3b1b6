"""Zeros instead of updates: the same-value attack of RSA (Li et al., AAAI 2019) with the value 0."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class Zero(Attack):
    """Every attacker sends zeros; if clients send models, a model of zeros.

    Zeros shorten an average, are close to small honest updates, and make rules that divide by lengths divide by 0.
    """

    def craft(self, view: AttackView) -> Tensor:
        return torch.zeros_like(view.mean)
