"""Fed-NGA: the mean of the updates at length 1 (Zuo et al., NeurIPS 2025, https://arxiv.org/abs/2408.09539)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from robustfl_bench.base.fields import Flag
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView, SumForm


@dataclass(frozen=True)
class FedNga(Aggregator):
    """Mean of the directions of the updates, weighted by samples, or equally without ``weighted``.

    The aggregate is ``sum_i a_i g_i / |g_i|``, where a_i is the client's share of the samples (Eq. 9). It is at most 1
    long, however long the updates are, so the learning rate alone sets the length of a step. A client moves it by at
    most 2 a_i. A zero update has no direction and counts as zero; its share is not given to the others.

    The paper assumes that attackers have less than half of the samples. Two attacks that send different negative
    multiples of one vector, such as sign flipping and IPM, are the same attack on this rule.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it gives every update length 1",
        "translation": "directions depend on the origin",
        "scale": "directions have no size",
        "robust": "its length does not shrink with that of the updates",
    }

    weighted: Flag = True
    """true: by the clients' sample counts; false: each client counts once"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        counts = updates.counts if self.weighted else updates.counts.new_ones(updates.n)
        norms = updates.norms
        return updates.combine((counts / counts.sum() / norms).where(norms > 0, 0))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return replace(self, weighted=True).aggregate(updates, server)

    def from_sum(self) -> SumForm:
        """A client sends its direction times its count, and its count, which is 1 without ``weighted``."""

        def sent(update: Updates) -> Tensor:
            count = update.counts if self.weighted else update.counts.new_ones(1)
            length = update.norms
            return torch.cat([(count / length).where(length > 0, 0) * update.columns[0], count])

        return SumForm(sent, lambda total, n: total[:-1] / total[-1])
