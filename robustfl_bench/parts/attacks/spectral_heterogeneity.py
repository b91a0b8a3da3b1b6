"""Spectral heterogeneity: attackers keep up the disagreement that gossip removes last (Gaucher et al., ICML 2025).

Gaucher, Dieuleveut, Hendrikx, "Unified Breakdown Analysis for Byzantine Robust Gossip", https://arxiv.org/abs/2410.10418.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.base import Attack, AttackView, GossipView


@dataclass(frozen=True)
class SpectralHeterogeneity(Attack):
    """Every node receives its own model, moved along its part of the slowest disagreement of the honest graph.

    In gossip, attackers send node i the model x_i + ``scale`` e_i times the sum over the honest nodes of e_j x_j. e is
    the Fiedler vector of the honest graph: of the Laplacian with the gossip weights, the unit eigenvector of the second
    smallest eigenvalue. Where several share that eigenvalue, as in a complete graph, it is one of them.

    At a server there is no graph and no disagreement: attackers send the mean honest update.

    Code: the authors choose the scale anew for every node and round, by asking the rule 16 times; here it is a number.
    """

    by_columns = True

    scale: Annotated[float, at_least(0)] = 1.0
    """factor of the node's part of the disagreement; 0: the node's own model"""

    def craft(self, view: AttackView) -> Tensor:
        return view.mean

    def craft_messages(self, view: GossipView) -> Tensor:
        fiedler = fiedler_vector(view.weights)
        disagreement = fiedler.to(view.models) @ view.models
        reached = view.links[:, 1]
        return view.models[reached] + self.scale * fiedler[reached, None].to(view.models) * disagreement


def fiedler_vector(weights: Tensor) -> Tensor:
    """The unit eigenvector (h,) of the second smallest eigenvalue of the Laplacian of a graph with ``weights`` (h, h).

    The diagonal of the weights is ignored. A graph of one node has the vector (1,). The sign has no meaning.
    """
    laplacian = -weights.double()
    laplacian.diagonal().zero_().sub_(laplacian.sum(dim=1))
    vectors: Tensor = torch.linalg.eigh(laplacian).eigenvectors
    return vectors[:, min(1, len(vectors) - 1)]
