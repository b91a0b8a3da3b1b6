"""FoolsGold: clients whose updates are alike share one vote (Fung, Yoon, Beschastnikh, RAID 2020, Algorithm 1).

https://www.usenix.org/conference/raid2020/presentation/fung
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.interfaces import Aggregator, ConfigError, ServerView, check_choice, check_fields, check_flags
from robustfl_bench.numerics.directions import cosines
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.inner_products import gram_matrix
from robustfl_bench.updates import Aggregate, Updates

NEEDS_CLIENTS = "foolsgold must know whose updates it gets; set pre_aggregation=none, or history=false"
LEAST = 1e-9  # a weight before all are divided by the largest; less is the rounding error of a cosine of 1


@dataclass(frozen=True)
class FoolsGold(Aggregator):
    """Combination of the updates in which a client weighs less the more its updates resemble another client's.

    Similar are clients with a large cosine between the sums of all updates they have sent, or without ``history``
    between those of this round. A client that has a more similar pair elsewhere is pardoned: its cosine shrinks by the
    ratio of the two largest cosines. Weights are 1 less the largest cosine, divided by the largest such weight, then
    ``confidence * (ln(w / (1 - w)) + 0.5)``, at least 0 and at most 1. ``scale`` says what the weights are divided by:
    their ``sum``, so that the aggregate is as long as other rules', or ``none``, as in the paper. Clients who all send
    the same have no weight at all.

    A client unlike all others has a negative largest cosine, which counts as it is; the authors' code takes 0 for it.
    The paper can also look at important features only; here all count. With history the rule stores a vector for each
    client.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "clients who send the same are taken for one attacker",
        "translation": "cosines depend on the origin",
        "robust": "it looks for clients who are alike, not for large updates",
    }

    confidence: float = 1.0
    history: bool = True
    scale: str = "sum"

    def __post_init__(self) -> None:
        check_fields(self, confidence=(1e-9, math.inf))
        check_flags(self, "history")
        check_choice("scale", self.scale, ("sum", "none"))

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError where the history of every client is needed."""
        if self.history:
            raise ConfigError(NEEDS_CLIENTS)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        memory, gram = self._remembered(updates, server) if self.history else (None, updates.gram)
        weights = torch.from_numpy(self._weights(gram.cpu().numpy())).to(updates.device)
        if self.scale == "sum" and weights.any():
            weights = weights / weights.sum()
        return replace(updates.combine(weights), memory=memory)

    def _remembered(self, updates: Updates, server: ServerView) -> tuple[dict[str, Tensor], Tensor]:
        """The sums of all updates by client, and the inner products of those who take part."""
        if server.clients is None:
            raise ConfigError(NEEDS_CLIENTS)
        memory: Mapping[str, Tensor] = server.memory
        if "sums" in memory:
            sums, most = memory["sums"].clone(), torch.finfo(updates.matrix.dtype).max
            sums[server.clients] = (sums[server.clients] + updates.matrix).clamp(-most, most)
        else:
            sums = updates.matrix.new_zeros(len(server.counts), updates.d)
            sums[server.clients] = updates.matrix
        rows = sums[server.clients]
        return {"sums": sums}, gram_matrix(rows)

    def _weights(self, gram: Array) -> Array:
        if len(gram) == 1:
            return np.ones(1)
        similarity = cosines(gram)
        np.fill_diagonal(similarity, -math.inf)
        largest = similarity.max(axis=1)
        pardoned = (largest[:, None] < largest) & (largest > 0)
        ratios = np.divide(largest[:, None], largest, out=np.ones_like(gram), where=pardoned)
        weights: Array = (1 - (similarity * ratios).max(axis=1)).clip(0, 1)
        weights[weights < LEAST] = 0
        if not weights.any():
            return weights
        weights = weights / weights.max()
        with np.errstate(divide="ignore"):
            logits = np.log(weights) - np.log1p(-weights)
        confident: Array = (self.confidence * (logits + 0.5)).clip(0, 1)
        return confident
