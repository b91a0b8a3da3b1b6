"""Coordinate-wise trimmed mean by share (Yin et al., ICML 2018, definition 2, https://arxiv.org/abs/1803.01498)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class BetaTrMean(Aggregator):
    """Mean of every coordinate without the largest and the smallest ``fraction`` of its values, each rounded down.

    The result is ``(v_(k+1) + ... + v_(n-k)) / (n - 2k)`` for the sorted values ``v_1 <= ... <= v_n`` of a coordinate
    and ``k = floor(fraction n)``. 0 gives the mean. Unlike ``trmean`` it suits groups of any size, as in BRIFCA (Tao et
    al., arXiv 2306.00638).
    """

    exempt: ClassVar[Mapping[str, str]] = {"robust": "it trims a share of the clients, however many are Byzantine"}

    fraction: Annotated[float, between(0, 0.5)]
    """beta: share of the clients trimmed at each end of every coordinate, rounded down"""

    def __post_init__(self) -> None:
        if self.fraction == 0.5:
            raise ConfigError("fraction must be < 0.5: trimming a half at each end leaves nothing")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        trimmed = self._trimmed(updates.n)
        return Aggregate(updates.sorted_mean(trimmed, updates.n - trimmed))

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        trimmed = self._trimmed(questions.n)
        return questions.sorted_means(trimmed, questions.n - trimmed)

    def _trimmed(self, n: int) -> int:
        return math.floor(self.fraction * n + 1e-9)  # 0.29 * 100 is 28.999999999999996
