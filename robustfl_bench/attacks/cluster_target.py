"""All attackers against the smallest cluster: the worst case of BRIFCA's theory (Tao et al., arXiv 2306.00638)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, ChoiceView, Shard


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

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        return self.attack.poison(shard)

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor] | None:
        return self.attack.goal(shard)

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        return self.attack.report(losses, honest)

    def choose(self, view: ChoiceView) -> Tensor:
        used, sizes = torch.unique(view.honest, return_counts=True)
        smallest: Tensor = used[sizes.argmin()]
        return smallest.repeat(view.num_byzantine)

    def craft(self, view: AttackView) -> Tensor:
        return self.attack.craft(view)
