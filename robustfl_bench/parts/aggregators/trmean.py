"""Coordinate-wise trimmed mean (Yin et al., ICML 2018, https://arxiv.org/abs/1803.01498)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.sample_weights import largest_masses, trimmed_mean
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class TrMean(Aggregator):
    """Mean of every coordinate without its f largest and f smallest values; needs n > 2f. f = 0 gives the mean.

    The result is ``(v_(f+1) + ... + v_(n-f)) / (n - 2f)`` for the sorted values ``v_1 <= ... <= v_n`` of a coordinate.

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> updates = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 1.0], [4.0, 1.0], [100.0, -100.0]])
        >>> rb.TrMean(num_byzantine=1)(updates)  # the means of 2, 3, 4 and of 0, 0, 1, rounded to 32 bits
        array([3.        , 0.33333334])

    The values are sorted and averaged without the extremes, never subtracted from a sum, so that 1e30 erases no other.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: values trimmed at each end of every coordinate"""

    def check(self, n: int) -> None:
        """Raise ConfigError if trimming leaves no value of n clients."""
        require_majority("TrMean", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        return Aggregate(updates.sorted_mean(self.num_byzantine, updates.n - self.num_byzantine))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        return Aggregate(trimmed_mean(updates, largest_masses(updates.counts, self.num_byzantine)))

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        self.check(questions.n)
        return questions.sorted_means(self.num_byzantine, questions.n - self.num_byzantine)
