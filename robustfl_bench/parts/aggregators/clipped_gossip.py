"""ClippedGossip: every neighbour moves a node by a clipped distance (He, Karimireddy, Jaggi, arXiv 2202.01545)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from robustfl_bench.base.fields import SCALE, at_least
from robustfl_bench.numerics.clipping import clipped_sum, clipped_sums, heaviest, radius_of_squares
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class ClippedGossip(Aggregator):
    """Weighted sum of the updates, each shortened to ``radius``: at a node, x + sum of W_j Clip(x_j - x, radius).

    With ``protocol=gossip`` the updates are the differences x_j - x of the neighbours' models from the node's own, and
    their ``counts`` the gossip weights W_j. At a server, the weights are the sample counts over their sum.

    Without a number, the radius of a node is the paper's, ``sqrt(sum of W_j |x_j - x|^2 / delta)``. delta is the weight
    of f attackers, f times the largest weight of a neighbour. As a node does not know who is honest, the sum leaves out
    its farthest neighbours, of weight delta.

    Code: He et al. set a number in all published runs (1 or 0.1 on MNIST); without one, their code clips at the second
    largest distance. The adaptive radius follows that of Gaucher, Dieuleveut and Hendrikx (ICML 2025), ``CShe_RG``,
    whose sum also leaves out the farthest of the remaining neighbours if their weights are exactly delta.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "no update is longer than the radius",
        "translation": "lengths depend on the origin, a node's own model",
        "scale": "the radius may be a length",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: attackers among the neighbours of a node, for the adaptive radius"""
    radius: Annotated[float | None, at_least(0), SCALE] = None
    """longest step towards a neighbour; null: from the distances of the round"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return clipped_sum(updates, self._radii)

    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor:
        return clipped_sums(nodes, self._radii)

    def _radii(self, distances: Tensor, weights: Tensor) -> Tensor:
        """The radii (...,) for distances (..., n) of these weights."""
        if self.radius is not None:
            return distances.new_full(distances.shape[:-1], self.radius)
        return radius_of_squares(distances, weights, self.num_byzantine * heaviest(distances, weights))
