"""The Trim attack: against trimmed mean and median (Fang, Cao, Jia, Gong, USENIX Security 2020, section 4.3)."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, check_choice, check_fields, check_flags


@dataclass(frozen=True)
class TrimAttack(Attack):
    """In every coordinate the attackers send a value beyond the honest ones, on the side away from their mean's sign.

    With ``knowledge`` full that is beyond the least honest value where the mean is positive, beyond the largest
    elsewhere: the extreme multiplied or divided by ``factor``, whichever leads outwards. All attackers use the factor
    itself, as its first author's later code does, or with ``random`` each its own draw from [1, factor] in every
    coordinate, as the paper has it. With ``partial`` knowledge, only of what they would send themselves, they move
    their own mean back by 3.5 of its standard deviations (n - 1 in the denominator), or with ``random`` by 3 to 4.

    The paper takes the sign from all clients, its attackers' honest updates included; here honest ones alone give it,
    so that full knowledge needs no data. Where clients send models, all of this is of the updates that lead to them.
    """

    knowledge: str = "full"
    factor: float = 2
    random: bool = False

    def __post_init__(self) -> None:
        check_choice("knowledge", self.knowledge, ("full", "partial"))
        check_fields(self, factor=(1, math.inf))
        check_flags(self, "random")

    def craft(self, view: AttackView) -> Tensor:
        return view.upload(self._update(view.of_updates))

    def _update(self, view: AttackView) -> Tensor:
        if self.knowledge == "partial":
            mean = view.own.mean(dim=0)
            spread = view.own.std(dim=0) if len(view.own) > 1 else torch.zeros_like(mean)
            return mean - mean.sign() * self._draw(view, 3, 4, 3.5) * spread
        up = view.mean > 0
        extreme = view.honest.matrix.amin(dim=0).where(up, view.honest.matrix.amax(dim=0))
        factor = self._draw(view, 1, self.factor, self.factor)
        return torch.where((extreme > 0) == up, extreme / factor, extreme * factor)

    def _draw(self, view: AttackView, low: float, high: float, fixed: float) -> Tensor:
        """``fixed`` for everyone, or uniform draws (b, d) from [low, high]."""
        if not self.random:
            return torch.full((), fixed, device=view.honest.device)
        draws = view.rng.random((view.num_byzantine, view.honest.d), dtype=np.float32)
        return torch.from_numpy(low + (high - low) * draws).to(view.honest.device)
