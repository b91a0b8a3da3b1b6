"""CFL as a defence: splits the clients in two by the directions of their updates and uses one group.

Sattler, Müller, Samek, IEEE TNNLS 2021, as a defence ICASSP 2020; here as in ARFL, arXiv 2101.05880, section 5.1: a
split in every round, without recursion.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage

from robustfl_bench.base.fields import between, one_of
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Cfl(Aggregator):
    """Sample-weighted mean of one of two groups of clients, or of all if the groups agree.

    The result is ``sum of m_i x_i / sum of m_i`` over the clients that are used, for sample counts m_i. The groups are
    made by single linkage on the similarities ``<x_i, x_j> / (|x_i| |x_j|)``: the most similar pairs are joined first,
    until two groups are left. If the largest similarity between the groups is at least ``threshold``, all clients are
    used. Of groups of equal size, the one without the first client is used. A zero update has similarity 0 to all
    others. Two clients form two groups.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "cosines depend on the origin",
        "robust": "large updates can point where honest ones do",
    }

    threshold: Annotated[float, between(-1, 1)] = 0.02
    """all clients count when updates of the two groups have at least this cosine similarity"""
    group: Annotated[str, one_of(larger="by clients", heavier="by samples", smaller="by clients")] = "larger"
    """which of two groups counts"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        weights = updates.counts
        if updates.n > 1:
            members = torch.from_numpy(self._members(updates)).to(weights)
            weights = weights * members
        return updates.combine(weights / weights.sum())

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return self.aggregate(updates, server)

    def _members(self, updates: Updates) -> NDArray[np.bool_]:
        """The clients that are used, (n,) bool."""
        lengths = updates.norms.clamp(min=np.finfo(np.float64).tiny)
        cosines = (updates.gram / lengths / lengths[:, None]).clamp(-1, 1).cpu().numpy()
        n = updates.n
        tree = linkage(1 - cosines[np.triu_indices(n, 1)], "single")
        if 1 - tree[-1, 2] >= self.threshold:
            return np.ones(n, dtype=bool)
        held: NDArray[np.bool_] = np.eye(2 * n - 1, n, dtype=bool)  # the clients in every node of the tree
        for node, (left, right, *_) in enumerate(tree[:-1], start=n):
            held[node] = held[int(left)] | held[int(right)]
        first = held[int(tree[-1, 0])]
        first = first if first[0] else ~first
        sizes = updates.counts.cpu().numpy() if self.group == "heavier" else np.ones(n)
        lead = sizes[first].sum() - sizes[~first].sum()
        members: NDArray[np.bool_] = first if (-lead if self.group == "smaller" else lead) > 0 else ~first
        return members
