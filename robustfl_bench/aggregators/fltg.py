"""FLTG: trusts clients by the server's direction and weights them by angles (Wen et al., BlockSys 2025).

"FLTG: Byzantine-robust federated learning via angle-based defense and non-IID-aware weighting",
https://arxiv.org/abs/2505.12851.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.numerics.directions import cosines
from robustfl_bench.numerics.updates import Aggregate, Updates

LEAST = 1e-9  # smaller scores are rounding errors of a cosine of 1


@dataclass(frozen=True)
class Fltg(Aggregator):
    """Mean of the updates that point where the server's does, at its length, weighted by their angle to a reference.

    An update is accepted if its cosine with the server's update is positive. The reference is the accepted client
    whose update is least similar to the last aggregate. The weight of an accepted client grows with
    ``1 - cos(update, reference)``, so that the reference itself has weight 0; if all accepted updates have the
    direction of the reference, they count equally. All are scaled to the length of the server's update, and the
    aggregate is never longer.

    In the first round, and after an aggregate of zero, the server's update takes the place of the last aggregate. If no
    update is accepted, the aggregate is zero, as in FLTrust. The sources leave both open.

    Code: the authors' is not public. The formulas of the reference and of the weights are those of an independent
    implementation (https://github.com/YUJAEYUN/FLTG-implementation). The paper's abstract agrees with it on the steps;
    it calls the weights inversely proportional to angular deviations. The implementation takes the first accepted
    client for the reference of the first round, and returns the server's update if none is accepted.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it gives every update the length of the server's",
        "translation": "cosines depend on the origin",
    }

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        n, known = updates.n, [server.update] if server.previous is None else [server.update, server.previous]
        gram = updates.joint_gram(torch.stack(known)).cpu().numpy()
        similar, last = cosines(gram), n if gram[-1, -1] <= 0 else -1
        accepted = similar[:n, n] > 0
        if not accepted.any():
            return updates.combine(torch.zeros(n))
        reference = np.where(accepted, similar[:n, last], np.inf).argmin()
        scores = accepted * (1 - similar[:n, reference])
        scores[scores < LEAST] = 0
        if not scores.any():
            scores = accepted.astype(np.float64)
        lengths = np.sqrt(gram.diagonal().clip(min=0))
        weights = np.divide(scores * lengths[n] / scores.sum(), lengths[:n], out=np.zeros(n), where=accepted)
        return updates.combine(torch.from_numpy(weights), torch.from_numpy(accepted).to(updates.device))
