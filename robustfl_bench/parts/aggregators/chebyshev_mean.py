"""Mean of values brought within a number of standard deviations (``tm_cheby`` of FL-Byzantine-Library).

https://github.com/CRYPTO-KU/FL-Byzantine-Library
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class ChebyshevMean(Aggregator):
    """Mean of every coordinate after its values are clipped to ``deviations`` standard deviations around their mean.

    The result is ``mean of min(max(v_i, m - k s), m + k s)`` for the values v_i of a coordinate, with
    ``k = deviations``, their mean m and ``s^2 = sum of (v_i - m)^2 / (n - 1)``. A single client's update is returned
    unchanged. No number of attackers is assumed. A single wild value moves both the mean and the range, so the rule is
    not robust.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "robust": "one wild value moves the mean and stretches the range around it",
    }

    deviations: Annotated[float, at_least(0)] = 1.0
    """values are clipped to this many standard deviations around the mean"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        def reduce(block: Any) -> Any:
            values = torch.as_tensor(block).double()
            mean = values.mean(1, keepdim=True)
            spread = self.deviations * (values - mean).square().sum(1, keepdim=True).div(max(updates.n - 1, 1)).sqrt()
            return torch.maximum(torch.minimum(values, mean + spread), mean - spread).mean(1).float()

        return Aggregate(updates.by_sorted_column(reduce))
