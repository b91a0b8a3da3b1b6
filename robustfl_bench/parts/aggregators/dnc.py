"""DnC, divide and conquer: spectral filtering of random coordinates (Shejwalkar, Houmansadr, NDSS 2021, Algorithm 2).

https://www.ndss-symposium.org/ndss-paper/manipulating-the-byzantine-optimizing-model-poisoning-attacks-and-defenses-for-federated-learning/
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import num_kept
from robustfl_bench.numerics.spectra import top_eigenpair
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Dnc(Aggregator):
    """Mean of the updates that no filter rejects; a filter uses random coordinates and their direction of most
    variance.

    Each of ``num_iters`` filters uses ``sub_dim`` random coordinates (all of them, if there are fewer) and rejects the
    ``floor(fraction * f)`` clients of largest ``score_i = <x_i - m, u>^2`` on these coordinates, where m is the mean of
    all updates and u, of length 1, their direction of most variance. If every client is rejected by some filter, the
    clients rejected least often are averaged; the paper does not cover this case. The defaults for ``num_iters`` and
    ``fraction`` are the paper's; several libraries make 5 passes.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "robust": "a filter sees one direction, in which the largest attacker hides smaller ones",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: each filter rejects fraction * f clients"""
    num_iters: Annotated[int, at_least(1)] = 1
    """number of filters; a client must pass all of them"""
    fraction: Annotated[float, at_least(0)] = 1.0
    """multiple of f that each filter rejects"""
    sub_dim: Annotated[int, at_least(1)] = 10_000
    """number of random coordinates that a filter uses"""

    @property
    def _rejected(self) -> int:
        return math.floor(self.fraction * self.num_byzantine + 1e-9)

    def check(self, n: int) -> None:
        """Raise ConfigError if a filter leaves no client."""
        num_kept("DnC", n, self._rejected)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        kept = num_kept("DnC", updates.n, self._rejected)
        rejections = np.zeros(updates.n, dtype=np.intp)
        for _ in range(self.num_iters):
            deviations = _deviations(self._gram(updates, server.rng))
            rejections[np.argsort(deviations, kind="stable")[kept:]] += 1
        members = torch.from_numpy(rejections == rejections.min()).to(updates.counts)
        return updates.combine(members / members.sum())

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)

    def _gram(self, updates: Updates, rng: np.random.Generator) -> Array:
        """Inner products (n, n) of the updates on random coordinates."""
        if updates.d <= self.sub_dim:
            return updates.gram.cpu().numpy()
        drawn = torch.from_numpy(rng.choice(updates.d, self.sub_dim, replace=False)).to(updates.device)
        return updates.at(drawn).gram.cpu().numpy()


def _deviations(gram: Array) -> Array:
    """The points' deviations (n,) from their mean along the direction of most variance, in units of the largest
    singular value."""
    means = gram.mean(axis=0)
    return np.abs(top_eigenpair(gram - means - means[:, None] + means.mean())[1])
