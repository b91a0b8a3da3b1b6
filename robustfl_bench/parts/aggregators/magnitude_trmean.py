"""Trimmed mean by magnitude (``tm_abs`` of FL-Byzantine-Library).

https://github.com/CRYPTO-KU/FL-Byzantine-Library
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.medians import sum_nearest
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class MagnitudeTrMean(Aggregator):
    """Mean of every coordinate without its f values of largest and f values of smallest magnitude; needs n > 2f.

    The result is ``(v_(f+1) + ... + v_(n-f)) / (n - 2f)`` for the values of a coordinate in the order
    ``|v_1| <= ... <= |v_n|``. Of two equal magnitudes, that of the negative value is treated as smaller.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "magnitudes depend on the origin",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: number of largest and of smallest magnitudes trimmed in every coordinate"""

    def check(self, n: int) -> None:
        """Raise ConfigError if trimming leaves no value of n clients."""
        require_majority("magnitude TrMean", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        n, f = updates.n, self.num_byzantine

        def reduce(block: Any) -> Any:
            values = torch.as_tensor(block)
            zero = values.new_zeros(len(values), dtype=torch.float64)
            # The f smallest are no larger than the kept values, so the subtraction loses no digits.
            kept = sum_nearest(values, n - f, zero) - sum_nearest(values, f, zero)
            return (kept / (n - 2 * f)).to(values.dtype)

        return Aggregate(updates.by_sorted_column(reduce))
