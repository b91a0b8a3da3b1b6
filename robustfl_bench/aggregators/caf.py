"""CAF, the covariance-bound agnostic filter (Allouah, Guerraoui, Stephan, ICML 2025, Algorithm 2).

"Towards trustworthy federated learning with untrusted participants", https://arxiv.org/abs/2505.01874.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh

from robustfl_bench.interfaces import Aggregator, ConfigError, ServerView, check_fields
from robustfl_bench.updates import Aggregate, Updates

LEAST_TRUST = 1e-9  # less is the rounding error of no trust at all, which a huge update multiplies


@dataclass(frozen=True)
class Caf(Aggregator):
    """Of the weighted means that a spectral filter passes through, the one whose covariance has the least norm.

    All clients begin with trust 1. In each pass a client's trust is multiplied by ``1 - t_i / max t``, t_i being its
    squared deviation from the weighted mean along the top eigenvector of the weighted covariance. The maximum is over
    clients of some trust left; in ByzFL it is over all, and far attackers without trust keep the filter from ending.
    It ends when a trust of no more than n - 2f is left, so it needs n > 2f; f = 0 is the mean. ByzFL approximates the
    eigenvector by one step of the power method from a random vector; here it is exact. There is no other difference.
    """

    num_byzantine: int

    def __post_init__(self) -> None:
        check_fields(self, num_byzantine=(0, math.inf))

    def check(self, n: int) -> None:
        """Raise ConfigError when n clients are too few for f."""
        if n <= 2 * self.num_byzantine:
            raise ConfigError(f"CAF needs n > 2f, got n={n}, f={self.num_byzantine}; lower num_byzantine_declared")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        gram, least = updates.gram.cpu().numpy(), math.inf
        trust = np.ones(updates.n)
        best = trust / trust.sum()
        while trust.sum() > updates.n - 2 * self.num_byzantine:
            active = np.flatnonzero(trust)
            weights = trust[active] / trust.sum()
            inner = gram[np.ix_(active, active)]
            means = inner @ weights
            centred = inner - means - means[:, None] + weights @ means
            roots = np.sqrt(weights)
            top = len(active) - 1
            values, vectors = eigh(roots[:, None] * centred * roots, subset_by_index=[top, top])
            if values[0] < least:
                least, best = values[0], np.zeros(updates.n)
                best[active] = weights
            if values[0] <= len(active) * np.finfo(np.float64).eps * (weights @ inner.diagonal()):
                break
            deviations = np.square(centred @ (roots * vectors[:, 0]))
            trust[active] *= 1 - deviations / deviations.max()
            trust[trust < LEAST_TRUST] = 0
            if not trust.any():
                break
        return updates.combine(torch.from_numpy(best).to(updates.device))
