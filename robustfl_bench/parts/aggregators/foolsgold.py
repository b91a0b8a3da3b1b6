"""FoolsGold: clients with similar updates share one vote (Fung, Yoon, Beschastnikh, RAID 2020, Algorithm 1).

https://www.usenix.org/conference/raid2020/presentation/fung
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, at_least, one_of
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.spectra import cosines
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

NEEDS_CLIENTS = "foolsgold must know whose updates it gets; set pre_aggregation=none, or history=false"
LEAST = 1e-9  # smaller weights, before division by the largest, are rounding errors of a cosine of 1


@dataclass(frozen=True)
class FoolsGold(Aggregator):
    """Combination of the updates in which a client's weight falls with the similarity of its updates to another
    client's.

    Similarity c_ij is the cosine between the sums of all updates that clients i and j have sent, or without ``history``
    between their updates of this round. Pardoning multiplies c_ij by ``v_i / v_j`` if ``v_i < v_j``, where
    ``v_i = max of c_ij over j != i``. After that, weights are ``w_i = 1 - max of c_ij over j != i``, divided by the
    largest of them, then ``confidence * (ln(w_i / (1 - w_i)) + 0.5)``, clipped to [0, 1]. With ``scale`` ``sum`` the
    weights are divided by their sum, so that the aggregate is as long as that of other rules; with ``none``, as in the
    paper, they are not. If all clients send the same, all weights are 0.

    The paper can also restrict the cosines to important features; here all features are used. With ``history`` the rule
    stores a vector for each client.

    Code: a largest cosine that is negative counts as 0, as in the authors' code. In the paper's formula the product of
    two negative numbers would count as likeness, and a client that opposes all others would be taken for a sybil.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "clients who send the same are taken for one attacker",
        "translation": "cosines depend on the origin",
        "robust": "it looks for clients who are alike, not for large updates",
    }

    confidence: Annotated[float, at_least(1e-9)] = 1.0
    """kappa: how fast weights go to 0 or 1"""
    history: Flag = True
    """true: compares sums of all updates so far; false: the updates of this round"""
    scale: Annotated[str, one_of(sum="their sum", none="as in the paper")] = "sum"
    """what weights are divided by"""

    @property
    def whole_matrices(self) -> int:  # type: ignore[override]
        """The sums of the updates of all clients, before and after the round."""
        return 2 if self.history else 0

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError if the rule uses the history of every client."""
        if self.history:
            raise ConfigError(NEEDS_CLIENTS)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        memory, gram = self._remembered(updates, server) if self.history else (None, updates.gram)
        weights = torch.from_numpy(self._weights(gram.cpu().numpy())).to(updates.device)
        if self.scale == "sum" and weights.any():
            weights = weights / weights.sum()
        return replace(updates.combine(weights), memory=memory)

    def _remembered(self, updates: Updates, server: ServerView) -> tuple[dict[str, Tensor], Tensor]:
        """The memory with each client's sum of updates, and the inner products of these sums for the participating
        clients."""
        if server.clients is None:
            raise ConfigError(NEEDS_CLIENTS)
        memory: Mapping[str, Tensor] = server.memory
        if "sums" in memory:
            kept, most = memory["sums"], torch.finfo(updates.columns.dtype).max
            joined = len(server.counts) - len(kept)  # clients that another framework's server has met since
            sums = torch.cat([kept, kept.new_zeros(joined, kept.shape[1])])
            sums[server.clients] = (sums[server.clients] + updates.columns).clamp(-most, most)
        else:
            sums = updates.columns.new_zeros(len(server.counts), updates.columns.shape[1])
            sums[server.clients] = updates.columns
        return {"sums": sums}, updates.like(sums[server.clients]).gram

    def _weights(self, gram: Array) -> Array:
        if len(gram) == 1:
            return np.ones(1)
        similarity = cosines(gram)
        np.fill_diagonal(similarity, -math.inf)
        largest = similarity.max(axis=1).clip(min=0)
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
