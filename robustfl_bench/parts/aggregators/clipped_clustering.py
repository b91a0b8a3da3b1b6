"""Clipped clustering: the larger of two clusters by direction (Li, Ngai, Voigt, IEEE Trans. on Big Data 2024).

"An experimental study of Byzantine-robust aggregation schemes in federated learning",
https://doi.org/10.1109/TBDATA.2023.3237397.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from robustfl_bench.base.fields import SCALE, at_least, one_of
from robustfl_bench.numerics.clipping import clip_factors, median_norm
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.spectra import cosines
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class ClippedClustering(Aggregator):
    """Mean of the larger of two groups of updates, shortened to the median of the norms of all rounds so far.

    The result is ``mean of x_i min(1, r / |x_i|)`` over the group, with this median r. Agglomerative clustering of the
    distances ``1 - <x_i, x_j> / (|x_i| |x_j|)`` makes the groups; of groups of the same size, the one whose members are
    closer to each other. A zero update has distance 2 to all others; where two or more are zero, the last groups join
    at the same distance, and all updates are used.

    Code: in the authors', Blades, no update is longer than 100000 after clipping (``max_radius=100000``); the paper has
    no such limit.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "cosines and lengths depend on the origin",
    }

    linkage: Annotated[str, one_of("average", "single")] = "average"
    """linkage of the clusters"""
    max_radius: Annotated[float | None, at_least(0), SCALE] = None
    """longest update after clipping; null: no limit"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        norms = torch.cat([server.memory.get("norms", updates.norms[:0]), updates.norms])
        radius = min(median_norm(norms), math.inf if self.max_radius is None else self.max_radius)
        members = torch.from_numpy(self._members(updates.gram.cpu().numpy())).to(updates.device)
        weights = members * clip_factors(updates.norms, radius) / members.sum()
        return replace(updates.combine(weights, members), memory={"norms": norms})

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)

    def _members(self, gram: Array) -> NDArray[np.bool_]:
        """Who is in the larger group, (n,) bool."""
        n = len(gram)
        if n < 3:
            return np.ones(n, dtype=bool)
        dists, empty = 1 - cosines(gram), gram.diagonal() <= 0
        dists[empty], dists[:, empty] = 2, 2
        groups = fcluster(linkage(dists[np.triu_indices(n, 1)], self.linkage), 2, "maxclust")
        first: NDArray[np.bool_] = groups == 1
        sizes = (float(first.sum()), float((~first).sum()))
        if sizes[0] == sizes[1]:
            sizes = (-float(dists[np.ix_(first, first)].sum()), -float(dists[np.ix_(~first, ~first)].sum()))
        return first if sizes[0] >= sizes[1] else ~first
