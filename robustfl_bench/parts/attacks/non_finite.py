"""Infinities and NaN, which a server that does not check would average into its model (folklore)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from robustfl_bench.base.fields import between, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView

VALUES = {"plus_infinity": math.inf, "minus_infinity": -math.inf, "not_a_number": math.nan}


@dataclass(frozen=True)
class NonFinite(Attack):
    """Every attacker sends ``value`` in a random ``fraction`` of the coordinates and the honest mean in the others.

    Each attacker draws its own coordinates, at least one. The engine replaces the whole update by zeros before any rule
    sees it, and counts it in ``non_finite_updates``.
    """

    exempt: ClassVar[Mapping[str, str]] = {"finite": "numbers that are not finite are the attack"}

    value: Annotated[str, one_of(*VALUES)] = "plus_infinity"
    """the number that is sent"""
    fraction: Annotated[float, between(0, 1)] = 1.0
    """share of the coordinates that are replaced; at least one is"""

    def craft(self, view: AttackView) -> Tensor:
        count = max(1, round(self.fraction * view.honest.d))
        rows = view.mean.repeat(view.num_byzantine, 1)
        for row in rows:
            row[torch.from_numpy(view.rng.permutation(view.honest.d)[:count])] = VALUES[self.value]
        return rows
