"""Server: training on the server's own data alone (a baseline of BOBA, Bao et al., AISTATS 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from robustfl_bench.numerics.updates import Aggregate, Updates, mean_row
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Server(Aggregator):
    """Mean of the server's updates per class; the clients, whose weights are all 0, are ignored."""

    exempt: ClassVar[Mapping[str, str]] = {"unanimous": "it ignores the clients"}

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        ignored = updates.combine(torch.zeros_like(updates.counts))
        return replace(ignored, vector=mean_row(server.class_updates))
