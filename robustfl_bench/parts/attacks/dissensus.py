"""Dissensus: attackers push every node away from its neighbours (He, Karimireddy, Jaggi, arXiv 2202.01545)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import Option
from robustfl_bench.parts.attacks.base import Attack, AttackView, GossipView


@dataclass(frozen=True)
class Dissensus(Attack):
    """Every node receives its own model, moved against what its honest neighbours pull it to.

    In gossip, attackers send node i the model x_i - ``scale`` times the sum over its honest neighbours of W_ij (x_j -
    x_i), over the weight that node i gives to attackers. With a scale of 1, plain gossip stands still. At a server,
    whose neighbours are the clients with equal weights, they send minus ``scale`` h / b times the mean of the h honest
    updates.
    """

    by_columns = True

    scale: Annotated[float, Option()] = 1.5
    """factor of the honest pull that is undone; above 1, nodes move apart"""

    def craft(self, view: AttackView) -> Tensor:
        return -self.scale * view.honest.n / view.num_byzantine * view.mean

    def craft_messages(self, view: GossipView) -> Tensor:
        pull = view.weights / view.byzantine_weights.sum(dim=1, keepdim=True)  # not finite without attackers
        pull.diagonal().zero_().sub_(pull.sum(dim=1))
        reached = view.links[:, 1]
        return view.models[reached] - self.scale * (pull[reached].to(view.models) @ view.models)
