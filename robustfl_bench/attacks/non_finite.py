"""Infinities and NaN, which a server that does not check would average into its model (folklore)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.base.errors import check_choice, check_fields

VALUES = {"plus_infinity": math.inf, "minus_infinity": -math.inf, "not_a_number": math.nan}


@dataclass(frozen=True)
class NonFinite(Attack):
    """Every attacker sends ``value`` in a random ``fraction`` of the coordinates and the honest mean in the others.

    Each attacker draws its own coordinates, at least one. The engine replaces the whole update by zeros before any rule
    sees it, and counts it in ``non_finite_updates``.
    """

    exempt: ClassVar[Mapping[str, str]] = {"finite": "numbers that are not finite are the attack"}

    value: str = "plus_infinity"
    fraction: float = 1.0

    def __post_init__(self) -> None:
        check_choice("value", self.value, tuple(VALUES))
        check_fields(self, fraction=(0, 1))

    def craft(self, view: AttackView) -> Tensor:
        count = max(1, round(self.fraction * view.honest.d))
        rows = view.mean.repeat(view.num_byzantine, 1)
        for row in rows:
            row[torch.from_numpy(view.rng.permutation(view.honest.d)[:count])] = VALUES[self.value]
        return rows
