"""Coordinate-wise median (Yin et al., ICML 2018, https://arxiv.org/abs/1803.01498)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import one_of
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.sample_weights import median
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class CooMed(Aggregator):
    """Median of every coordinate; robust while fewer than half of the clients are Byzantine.

    The result is ``v_((n+1)/2)`` for odd n and ``(v_(n/2) + v_(n/2+1)) / 2`` for even n, for the sorted values
    ``v_1 <= ... <= v_n`` of a coordinate.

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> updates = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 1.0], [4.0, 1.0], [100.0, -100.0]])
        >>> rb.CooMed()(updates)  # the last client attacks
        array([3., 0.])

    With ``even`` ``lower``, the result for even n is ``v_(n/2)``.
    """

    even: Annotated[str, one_of(mean="of the two middle values", lower="of the two, as in torch.median")] = "mean"
    """median of an even number of clients"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        lower, upper = self._middle(updates.n)
        if lower == upper:
            return Aggregate(updates.by_sorted_row(lambda rows: rows[lower]))
        # Halved before they are added, as the sum of two large floats could overflow.
        return Aggregate(updates.by_sorted_row(lambda rows: rows[lower] * 0.5 + rows[upper] * 0.5))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(median(updates, lower_only=self.even == "lower"))

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        lower, upper = self._middle(questions.n)
        if lower == upper:
            return questions.sorted_values(lower)
        return questions.sorted_values(lower) * 0.5 + questions.sorted_values(upper) * 0.5

    def _middle(self, n: int) -> tuple[int, int]:
        """The places of the sorted values whose mean is the median; the same place twice if it is one value."""
        lower = (n - 1) // 2
        return lower, lower if self.even == "lower" else n // 2
