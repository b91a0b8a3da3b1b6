"""All attackers against the smallest cluster: the worst case of BRIFCA's theory (Tao et al., arXiv 2306.00638)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, ChoiceView


@dataclass(frozen=True)
class ClusterTarget(Attack):
    """The attackers do what ``attack`` does, all to the model that the fewest honest clients of the round train.

    Models that no honest client trains are left alone; of equals the first is attacked. Where the groups are fixed
    (three_stage) there is nothing to choose, and without clustering only ``attack`` remains.
    """

    attack: Attack

    @property
    def present(self) -> bool:  # type: ignore[override]
        """Whether there is an attack at all."""
        return self.attack.present

    @property
    def alone(self) -> bool:  # type: ignore[override]
        """Whether it works without honest clients."""
        return self.attack.alone

    def poison(self, x: Tensor, y: Tensor, num_classes: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        return self.attack.poison(x, y, num_classes, rng)

    def choose(self, view: ChoiceView) -> Tensor:
        used, sizes = torch.unique(view.honest, return_counts=True)
        smallest: Tensor = used[sizes.argmin()]
        return smallest.repeat(view.num_byzantine)

    def craft(self, view: AttackView) -> Tensor:
        return self.attack.craft(view)
