"""SignGuard: filters updates by their length and by their shares of positive and negative entries.

Xu, Huang, Song, Lan, ICDCS 2022, Algorithm 2, https://arxiv.org/abs/2109.05872.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.numerics.clipping import clip_factors, median_norm
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.medians import largest_cluster
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.spectra import cosines
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class SignGuard(Aggregator):
    """Mean of the updates that pass a filter on norms and one on signs, clipped to the median of all norms.

    The result is ``mean of x_i min(1, S / |x_i|)`` over these updates, with the median norm S. The filter on norms
    passes ``lower S <= |x_i| <= upper S``. The shares of positive, zero and negative entries among a random
    ``fraction`` of the coordinates, each relative to the largest share, are clustered by mean shift with a bandwidth
    that reaches half of the clients; only the largest cluster passes. With ``similarity`` (the paper's SignGuard-Sim
    and -Dist) there is a fourth feature: the cosine with, or the distance from, the last aggregate, and in the first
    round the median cosine with, or distance from, all clients, itself included, relative to the largest. If no client
    passes both filters, those that pass the second are used.

    Code: the authors start mean shift from bins (``seeding=bins``), not from every client, which often selects another
    cluster. Their code also takes consecutive coordinates, clips to the lower one of two middle norms, and has another
    fourth feature, at most a fifth: the cosine up to its median, or whether the distance exceeds 1.1 times its median.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "signs and lengths depend on the origin",
    }

    lower: Annotated[float, between(0, 1)] = 0.1
    """least norm that passes, in units of the median norm"""
    upper: Annotated[float, at_least(1)] = 3.0
    """largest norm that passes, in units of the median norm"""
    fraction: Annotated[float, between(1e-9, 1)] = 0.1
    """share of the coordinates whose signs are counted"""
    similarity: Annotated[str, one_of("none", cosine="SignGuard-Sim", distance="SignGuard-Dist")] = "none"
    """a fourth feature"""
    seeding: Annotated[str | None, one_of(bins="of a grid, the authors' code", null="every client")] = None
    """the places where mean shift starts"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        norms = updates.norms
        middle = median_norm(norms)
        of_length = ((norms >= self.lower * middle) & (norms <= self.upper * middle)).cpu().numpy()
        features = self._sign_shares(updates, server.rng)
        if self.similarity != "none":
            features = np.column_stack([features, _relative(self._similarity(updates, server))])
        passed = largest_cluster(features, bins=self.seeding is not None)
        members = torch.from_numpy(passed & of_length if (passed & of_length).any() else passed).to(updates.device)
        weights = members * clip_factors(norms, middle) / members.sum()
        return updates.combine(weights, members)

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)

    def _sign_shares(self, updates: Updates, rng: np.random.Generator) -> Array:
        """Shares (n, 3) of positive, zero and negative entries, each relative to the largest."""
        drawn = rng.choice(updates.d, max(1, round(self.fraction * updates.d)), replace=False)
        part = updates.at(torch.from_numpy(drawn).to(updates.device))
        numbers = part.columns
        counts = torch.stack([sign.sum(dim=1) for sign in (numbers > 0, numbers == 0, numbers < 0)])
        shares = part.place.sum(counts.double()) / len(drawn)
        return np.column_stack([_relative(share) for share in shares.cpu().numpy()])

    def _similarity(self, updates: Updates, server: ServerView) -> Array:
        """Cosines with, or distances from, the last aggregate, or their medians over all clients, (n,), at least 0."""
        gram = updates.gram if server.previous is None else updates.joint_gram(server.previous[None])
        inner = gram.cpu().numpy()
        if self.similarity == "cosine":
            pairs = cosines(inner).clip(min=0)
        else:
            squares = inner.diagonal()
            pairs = np.sqrt((squares + squares[:, None] - 2 * inner).clip(min=0))
        found: Array = np.median(pairs, axis=1) if server.previous is None else pairs[:-1, -1]
        return found


def _relative(values: Array) -> Array:
    most = values.max()
    return values / most if most > 0 else values
