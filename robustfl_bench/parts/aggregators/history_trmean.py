"""Trimmed mean that replaces trimmed values by the last aggregate (``tm_history`` of FL-Byzantine-Library).

https://github.com/CRYPTO-KU/FL-Byzantine-Library
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.selection import require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class HistoryTrMean(Aggregator):
    """Mean of every coordinate with its f largest and f smallest values replaced by the last aggregate; needs n > 2f.

    The result is ``(sum of the kept values + 2f times the last aggregate) / n``, in the first round the trimmed mean.
    """

    exempt: ClassVar[Mapping[str, str]] = {"unanimous": "from the second round on, the last aggregate has a share"}

    num_byzantine: Annotated[int, at_least(0)]
    """f: values replaced at each end of every coordinate"""

    def check(self, n: int) -> None:
        """Raise ConfigError if trimming leaves no value of n clients."""
        require_majority("history TrMean", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        n, f = updates.n, self.num_byzantine
        return Aggregate(self._completed(updates.sorted_mean(f, n - f), n, server))

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        self.check(questions.n)
        n, f = questions.n, self.num_byzantine
        return self._completed(questions.sorted_means(f, n - f), n, server())

    def _completed(self, trimmed: Tensor, n: int, server: ServerView) -> Tensor:
        """The trimmed means (..., d) of n values, with the share of the last aggregate."""
        if server.previous is None:
            return trimmed
        share = 2 * self.num_byzantine / n
        return (1 - share) * trimmed + share * server.previous
