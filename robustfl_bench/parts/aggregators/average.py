"""Average: the mean of all updates (FedAvg, McMahan et al., AISTATS 2017, https://arxiv.org/abs/1602.05629)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import Flag
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, RingForm, ServerView, SumForm


@dataclass(frozen=True)
class Average(Aggregator):
    """Mean of the updates, with equal weights, or weighted by samples with ``weighted``. Not robust.

    The result is ``(x_1 + ... + x_n) / n``; ``weighted`` gives ``sum of m_i x_i / sum of m_i`` for sample counts m_i.
    """

    exempt: ClassVar[Mapping[str, str]] = {"robust": "one client moves the mean at will"}

    weighted: Flag = False
    """true: by the clients' sample counts; false: each client counts once"""

    @property
    def ring(self) -> RingForm | None:
        """Ring all-reduce (RAR), which does not use sample counts."""
        return None if self.weighted else RingForm(lambda updates: updates, lambda total, n: total / n)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        if not self.weighted:
            return updates.combine(np.full(updates.n, 1 / updates.n))
        return updates.combine(self._weights(updates.counts))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return replace(self, weighted=True).aggregate(updates, server)

    def from_sum(self) -> SumForm | None:
        """With ``weighted``, a client sends its update times its count, and its count."""
        if not self.weighted:
            return super().from_sum()
        return SumForm(
            lambda update: torch.cat([update.counts * update.columns[0], update.counts]),
            lambda total, n: total[:-1] / total[-1],
        )

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        return questions.combine_alike(self._weights(questions.counts))

    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor:
        degrees = nodes.summed(torch.ones_like(nodes.weights))
        return nodes.combine(nodes.weights if self.weighted else (1 / (1 + degrees))[nodes.receiver])

    def _weights(self, counts: Tensor) -> Tensor:
        weights = counts if self.weighted else torch.ones_like(counts)
        return weights / weights.sum()
