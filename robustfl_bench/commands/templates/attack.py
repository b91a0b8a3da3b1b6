"""An attack: the honest mean, shifted by a few standard deviations."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench import Attack, AttackView, check_fields


@dataclass(frozen=True)
class Template(Attack):
    """All attackers send the mean of the honest updates minus ``factor`` standard deviations. 0 sends the mean."""

    factor: float = 1.5

    def __post_init__(self) -> None:
        check_fields(self, factor=(-math.inf, math.inf))

    def craft(self, view: AttackView) -> Tensor:
        """What the attackers send: (d,) for all, or (b, d) for each of b attackers."""
        return view.mean - self.factor * view.std
