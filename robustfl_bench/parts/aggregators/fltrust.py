"""FLTrust: trusts clients by the cosine of their update with the server's (Cao et al., NDSS 2021)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class FLTrust(Aggregator):
    """Mean of the updates, scaled to the length of the server's update and weighted by the positive part of their
    cosine with it.

    The result is ``sum of t_i (|g| / |x_i|) x_i / sum of t_i`` with ``t_i = max(0, <x_i, g> / (|x_i| |g|))`` and the
    server's update g. If no cosine is positive, the aggregate is zero; it is never longer than the server's update.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it gives every update the length of the server's",
        "translation": "cosines depend on the origin",
    }

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        norms = updates.norms
        server_norm = updates.place.norm(torch.linalg.vector_norm(server.update, dtype=torch.float64))
        # A zero update, of a client or of the server, has no direction: 0 / 0 means no trust.
        trust = (updates.cross(server.update[None])[:, 0] / (norms * server_norm)).nan_to_num(nan=0.0).clamp(min=0)
        weights = (trust / trust.sum()) * (server_norm / norms)
        return updates.combine(weights.where(trust > 0, 0))
