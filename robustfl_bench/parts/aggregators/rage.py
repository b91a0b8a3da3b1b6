"""RAGE: spectral filtering (Data and Diggavi, ICML 2021, after Steinhardt et al., ITCS 2018), as BOBA runs it."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.spectra import LEAST_TRUST, outliers
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Rage(Aggregator):
    """Mean of the updates, weighted by a trust that f passes reduce for outliers along the direction of most variance.

    In each pass a client's trust is multiplied by ``1 - t_i / max t``, where t_i is the client's deviation from the
    weighted mean along the top eigenvector of the weighted covariance, and the maximum is over the clients with
    positive trust. So every pass removes at least one client, and all others with the same deviation up to rounding.
    The passes end early if no client is an outlier, or all are equally. ``deviation`` is ``squared`` in the original;
    ``absolute`` deviations reproduce BOBA's numbers (MNIST without attack: 59.8 as printed, against 65.8). The original
    stops when the variance is small; BOBA, without a bound for that, makes f passes.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: passes of the filter"""
    deviation: Annotated[str, one_of(absolute="BOBA", squared="the original")] = "absolute"
    """a client's deviation along the direction of most variance"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        gram = updates.gram.cpu().numpy()
        trust = np.ones(updates.n)
        for _ in range(self.num_byzantine):
            found = outliers(gram, trust)
            if found.along is None:
                break
            deviations = found.along if self.deviation == "absolute" else np.square(found.along)
            reduced = trust[found.active] * (1 - deviations / deviations.max())
            reduced[reduced < LEAST_TRUST] = 0
            if not reduced.any():
                break
            trust[found.active] = reduced
        return updates.combine(torch.from_numpy(trust / trust.sum()).to(updates.device))
