"""MDA, minimum diameter averaging (El Mhamdi, Guerraoui, Guirguis, Hoang, Rouault, Distributed Computing 2022).

"Genuinely distributed Byzantine machine learning", section 3.1, https://arxiv.org/abs/1905.03853; the estimator is
Rousseeuw's (1985).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import numpy as np
import torch

from robustfl_bench.base.fields import between
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

MAX_BYZANTINE = 30  # a search tree has up to 1.47^f leaves, 100,000 of them
MAX_TIES = 1000


@dataclass(frozen=True)
class Mda(Aggregator):
    """Mean of the n - f updates with the least diameter (the distance of the two farthest ones); needs n > 2f.

    The set S minimises ``max of |x_i - x_j| over i, j in S``. Of several such sets, the rule takes the one of least
    total squared distance, among the first ``MAX_TIES`` found and as far as it removes spare updates all at once. The
    search does not try all sets: for a diameter t, f clients must cover all pairs farther apart than t, which is a
    vertex cover, and bisection finds the least t. The cost is O(n^2 log n) times the size of a search tree that seldom
    branches if attackers are far away and has at most 1.47^f leaves; ``check`` therefore refuses f > 30.

    Code: of several such sets, ByzFL takes the first.
    """

    num_byzantine: Annotated[int, between(0, MAX_BYZANTINE)]
    """f: n - f clients are averaged"""

    def check(self, n: int) -> None:
        """Raise ConfigError when n clients are too few for f."""
        require_majority("MDA", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        members = torch.from_numpy(_closest_set(updates.sq_dists.cpu().numpy(), self.num_byzantine))
        weights = members.to(updates.counts)
        return updates.combine(weights / weights.sum())

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)


def _closest_set(sq_dists: Array, f: int) -> np.ndarray:
    """The members (n,) bool of the set of n - f points of least diameter."""
    diameters = np.unique(sq_dists)
    low, high = 0, len(diameters) - 1
    while low < high:
        middle = (low + high) // 2
        if next(_covers(_farther(sq_dists, diameters[middle]), f), None) is None:
            low = middle + 1
        else:
            high = middle
    covers = islice(_covers(_farther(sq_dists, diameters[low]), f), MAX_TIES)
    sets = (_without(cover, sq_dists, f) for cover in covers)
    return min(sets, key=lambda members: float(sq_dists[np.ix_(members, members)].sum()))


def _farther(sq_dists: Array, diameter: float) -> list[int]:
    """The graph of pairs farther apart than ``diameter``: for every point the bits of its neighbours."""
    bits = np.packbits(sq_dists > diameter, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in bits]


def _covers(graph: list[int], budget: int) -> Iterator[int]:
    """Sets of at most ``budget`` points, as bits, that touch every edge; the graph has one number of bits per point."""
    degrees = [neighbours.bit_count() for neighbours in graph]
    most = max(degrees)
    if most == 0:
        yield 0
    elif sum(degrees) <= 2 * budget * most:  # otherwise the budget cannot cover all edges
        point = degrees.index(most)
        if most <= budget:  # a cover without the point has all of its neighbours
            for cover in _covers(_isolated(graph, graph[point]), budget - most):
                yield cover | graph[point]
        for cover in _covers(_isolated(graph, 1 << point), budget - 1):
            yield cover | 1 << point


def _isolated(graph: list[int], points: int) -> list[int]:
    """The graph without the edges of these points."""
    return [0 if points >> i & 1 else neighbours & ~points for i, neighbours in enumerate(graph)]


def _without(cover: int, sq_dists: Array, f: int) -> np.ndarray:
    """All points except the cover; if that has fewer than f points, also without those farthest from the rest."""
    members = np.array([not cover >> i & 1 for i in range(len(sq_dists))])
    totals = np.where(members, sq_dists[:, members].sum(axis=1), -1.0)
    spare = int(members.sum()) - (len(sq_dists) - f)
    members[np.argsort(-totals, kind="stable")[:spare]] = False
    return members
