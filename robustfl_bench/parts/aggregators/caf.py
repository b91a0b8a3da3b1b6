"""CAF, the covariance-bound agnostic filter (Allouah, Guerraoui, Stephan, ICML 2025, Algorithm 2).

"Towards trustworthy federated learning with untrusted participants", https://arxiv.org/abs/2505.01874.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.spectra import LEAST_TRUST, outliers
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Caf(Aggregator):
    """The weighted mean of least covariance norm among those that a spectral filter passes through.

    All clients start with trust 1. In each pass a client's trust is multiplied by ``1 - t_i / max t``, where t_i is the
    client's squared deviation from the weighted mean along the top eigenvector of the weighted covariance. The maximum
    is over the clients with positive trust. The filter stops when the sum of trust is at most n - 2f, so it needs n >
    2f; f = 0 gives the mean.

    Code: ByzFL takes the maximum over all clients, so that far attackers without trust can keep the filter from
    stopping, and approximates the eigenvector by one step of the power method from a random vector; here it is exact.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: the filter stops when the trust sums to n - 2f or less"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for f."""
        require_majority("CAF", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        gram, least = updates.gram.cpu().numpy(), math.inf
        trust = np.ones(updates.n)
        best = trust / trust.sum()
        while trust.sum() > updates.n - 2 * self.num_byzantine:
            found = outliers(gram, trust)
            if found.variance < least:
                least, best = found.variance, np.zeros(updates.n)
                best[found.active] = found.weights
            if found.along is None:
                break
            deviations = np.square(found.along)
            trust[found.active] *= 1 - deviations / deviations.max()
            trust[trust < LEAST_TRUST] = 0
            if not trust.any():
                break
        return updates.combine(torch.from_numpy(best).to(updates.device))
