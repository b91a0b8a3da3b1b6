"""FLAME: clusters by direction, clips to the median length, adds noise (Nguyen et al., USENIX Sec. 2022, Algorithm 1).

https://www.usenix.org/conference/usenixsecurity22/presentation/nguyen
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.clipping import clip_factors, median_norm
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.spectra import cosines
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Flame(Aggregator):
    """Mean of the updates of one majority cluster, clipped to the median of all norms, plus Gaussian noise.

    The result is ``mean of x_i min(1, S / |x_i|)`` over the cluster plus noise of standard deviation ``noise S`` in
    every coordinate, with the median norm S. The paper finds the cluster by HDBSCAN on cosine distances. With FLAME's
    parameters, clusters of more than half of the clients and no density requirement (``min_samples`` 1), that is the
    first group of this size under single linkage. Cosines are between the clients' ``models``,
    ``params - step_size x_i``. The paper's ``noise`` is 0.001 for images and texts, 0.01 for network traffic.

    Code: some implementations compare updates (``compare=updates``).
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it adds noise",
        "translation": "cosines and lengths depend on the origin",
    }

    compare: Annotated[str, one_of(models="paper", updates="some implementations")] = "models"
    """directions to compare"""
    noise: Annotated[float, at_least(0)] = 0.001
    """standard deviation of the noise, in units of the median norm"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        bound = median_norm(updates.norms)
        members = torch.from_numpy(majority_cluster(1 - self._cosines(updates, server))).to(updates.device)
        weights = members * clip_factors(updates.norms, bound) / members.sum()
        aggregate = updates.combine(weights, members)
        if self.noise == 0:
            return aggregate
        drawn = updates.place.share(torch.from_numpy(server.rng.normal(size=updates.d)))
        noise = (drawn * (self.noise * bound)).to(aggregate.vector)
        return replace(aggregate, vector=aggregate.vector + noise, weights=None)

    def _cosines(self, updates: Updates, server: ServerView) -> Array:
        if self.compare == "updates":
            return cosines(updates.gram.cpu().numpy())
        joint, step = updates.joint_gram(server.params[None]).cpu().numpy(), server.step_size
        along = step * joint[:-1, -1]
        return cosines(step**2 * joint[:-1, :-1] - along - along[:, None] + joint[-1, -1])


def majority_cluster(dists: Array) -> NDArray[np.bool_]:
    """The first group of more than half of the points under single linkage of their distances (n, n), as (n,) bool."""
    n = len(dists)
    if n == 1:
        return np.ones(1, dtype=bool)
    tree = linkage(dists[np.triu_indices(n, 1)], "single")
    held: NDArray[np.bool_] = np.eye(2 * n - 1, n, dtype=bool)  # the points in every node of the tree
    for node, (left, right, *_) in enumerate(tree, start=n):
        held[node] = held[int(left)] | held[int(right)]
    sizes = held.sum(axis=1)
    members: NDArray[np.bool_] = held[int(np.argmax(sizes > n // 2))]
    return members
