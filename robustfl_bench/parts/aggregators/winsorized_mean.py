"""Winsorized mean: extreme values are replaced by the nearest remaining ones instead of left out.

Dixon, Annals of Mathematical Statistics 1960; ``tm_capped`` of FL-Byzantine-Library.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class WinsorizedMean(Aggregator):
    """Mean of every coordinate after its f largest values are lowered, and its f smallest raised, to the next value.

    The result is ``(f v_(f+1) + v_(f+1) + ... + v_(n-f) + f v_(n-f)) / n`` for the sorted values ``v_1 <= ... <= v_n``
    of a coordinate. Needs n > 2f; f = 0 gives the mean. The trimmed mean leaves these values out.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: values changed at each end of every coordinate"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for f."""
        require_majority("winsorized mean", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        n, f = updates.n, self.num_byzantine

        def reduce(block: Any) -> Any:
            values = torch.as_tensor(block)[:, f : n - f]
            total = values.sum(1, dtype=torch.float64) + f * (values[:, 0].double() + values[:, -1].double())
            return (total / n).to(values.dtype)

        return Aggregate(updates.by_sorted_column(reduce))
