"""Sign flipping: an honest upload turned around and enlarged, as in RAGA (Zuo et al., arXiv 2403.13374)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, check_choice, check_fields


@dataclass(frozen=True)
class SignFlip(Attack):
    """Attackers send ``-factor`` times an honest upload, by ``flip``: each its ``own``, or all of them the
    ``honest_sum`` or the ``honest_mean``.

    RAGA prints the sum over the honest clients, with factor 3. Its FedAvg, harmless at one attacker in ten, fits only
    the attacker's own upload, which is therefore the default; that needs Byzantine clients with data.
    """

    flip: str = "own"
    factor: float = 3

    def __post_init__(self) -> None:
        check_choice("flip", self.flip, ("own", "honest_sum", "honest_mean"))
        check_fields(self, factor=(-math.inf, math.inf))

    def craft(self, view: AttackView) -> Tensor:
        if self.flip == "own":
            return -self.factor * view.own
        return -self.factor * view.mean * (view.n - view.num_byzantine if self.flip == "honest_sum" else 1)
