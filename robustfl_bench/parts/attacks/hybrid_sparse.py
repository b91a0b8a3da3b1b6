"""Hybrid sparse attack: sensitive parameters are shifted far, all others a little (Özfatura et al., arXiv 2404.06230).

E. Özfatura, K. Özfatura, Büyükateş, Coşkuner, Küpçü, Gündüz, "Aggressive, imperceptible, or both: architecture-aware
hybrid Byzantines in federated learning".
"""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import Option, at_least, between, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted
from robustfl_bench.parts.attacks.lie import lie_z


@dataclass(frozen=True)
class HybridSparse(Attack):
    """All attackers send the mean honest update, moved by ``scale`` standard deviations in sensitive coordinates and by
    z in all others.

    The sensitive coordinates are the ``share`` with the largest product of parameter and mean honest update at the
    first attack, in size. They stay the same: a small part of the update moves far, where the network reacts most, and
    the rest is ``lie``.

    Code: the authors find the sensitive weights by a pruning method, by default FORCE in 100 steps, on data of honest
    clients before training. FORCE in one step is the criterion here; biases can be chosen too. Their optional limit for
    large standard deviations and the search for z under the constraint of Min-Sum are left out.
    """

    scale: Annotated[float, at_least(0)] = 1.5
    """shift of the sensitive coordinates, in standard deviations"""
    z: Annotated[float | None, Option()] = None
    """shift of all others; null: from the numbers of clients in the round, as in lie"""
    share: Annotated[float, between(0, 1)] = 0.005
    """share of the coordinates that are sensitive"""
    direction: Annotated[str, one_of(std="minus in all coordinates", mean="against the sign of the mean")] = "std"
    """side of the honest mean gradient"""

    by_columns = True

    def craft(self, view: AttackView) -> Crafted:
        view = view.of_updates
        mean, std = view.mean, view.std
        sensitive = view.memory["sensitive"] if view.memory else self._sensitive(view)
        z = lie_z(view.n, view.num_byzantine) if self.z is None else self.z
        shift = (sensitive * self.scale + ~sensitive * z) * std
        moved = mean - (shift if self.direction == "std" else shift * mean.sign())
        return Crafted(view.upload(moved), {"sensitive": sensitive})

    def _sensitive(self, view: AttackView) -> Tensor:
        """Which coordinates (d,) are sensitive."""
        others = view.honest.d - max(1, round(self.share * view.honest.d))
        saliency = (view.params * view.mean).abs()[None]
        return (saliency > view.honest.place.kth_smallest(saliency.clone(), others))[0] if others else saliency[0] >= 0
