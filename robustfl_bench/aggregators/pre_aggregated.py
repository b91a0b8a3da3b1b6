"""A pre-aggregation and a rule as one rule (bucketing with Krum: Karimireddy, He, Jaggi, ICLR 2022)."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

from robustfl_bench.interfaces import Aggregator, PreAggregation, ServerView
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class PreAggregated(Aggregator):
    """``rule`` applied to what ``pre_aggregation`` makes of the updates.

    The rule keeps its f although it sees fewer vectors, and need only be able to compute: bucketed Krum runs below
    n = 2f + 2 in the published tables.
    """

    pre_aggregation: PreAggregation
    rule: Aggregator

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """What the rule does not promise, and what is lost on the way to it."""
        return {**self.rule.exempt, "order": "groups are drawn by position in the matrix"}

    def check(self, n: int) -> None:
        """Raise ConfigError when n clients are too few for the pre-aggregation, or what it makes for the rule."""
        self.pre_aggregation.check(n)
        self.rule.check_mixed(self.pre_aggregation.num_made(n))

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        unnamed = copy(server)  # which shares what it has computed
        unnamed.clients = None
        return self.rule(self.pre_aggregation(updates, server.rng), unnamed)
