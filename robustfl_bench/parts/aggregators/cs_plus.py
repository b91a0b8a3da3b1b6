"""CS+: what neighbours send is clipped until the farthest cannot outweigh the rest (Gaucher et al., ICML 2025).

Gaucher, Dieuleveut, Hendrikx, "Unified Breakdown Analysis for Byzantine Robust Gossip", https://arxiv.org/abs/2410.10418.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.clipping import clipped_sum, clipped_sums, heaviest, radius_beyond
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class CsPlus(Aggregator):
    """Weighted sum of the updates, shortened to the longest length beyond which others weigh at least 2 delta.

    The result is ``sum of W_j x_j min(1, radius / |x_j|)``. With ``protocol=gossip`` the updates x_j are the
    differences of the neighbours' models from the node's own, and their ``counts`` the gossip weights W_j; this is the
    paper's CS+-RG. delta is the weight of f attackers, f times the largest weight of a neighbour. With equal weights,
    the radius is the (2f + 1)-th largest distance: the 2f farthest neighbours are shortened to it. At a server, the
    weights are the sample counts over their sum.

    The paper moves a node by the sum times the inverse of the largest eigenvalue of the graph's Laplacian; here it
    moves by the sum itself, as in ClippedGossip.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "f clients of large weight may leave no length to the others",
        "translation": "lengths depend on the origin, a node's own model",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: attackers among the neighbours of a node"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return clipped_sum(updates, self._radii)

    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor:
        return clipped_sums(nodes, self._radii)

    def _radii(self, distances: Tensor, weights: Tensor) -> Tensor:
        """The radii (...,) for distances (..., n) of these weights."""
        return radius_beyond(distances, weights, 2 * self.num_byzantine * heaviest(distances, weights))
