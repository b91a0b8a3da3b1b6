"""A pre-aggregation and a rule as one rule (bucketing with Krum: Karimireddy, He, Jaggi, ICLR 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass

from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.pre_aggregations.base import PreAggregation


@dataclass(frozen=True)
class PreAggregated(Aggregator):
    """``rule`` applied to the output of ``pre_aggregation``.

    The rule keeps its f although it gets fewer vectors, and its guarantee's condition on n is not checked: in the
    published tables bucketed Krum runs below n = 2f + 2.
    """

    pre_aggregation: PreAggregation
    """what is done to the updates first"""
    rule: Aggregator
    """the rule for the result"""

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """The promises that the rule does not make, and the order, which the pre-aggregation gives up."""
        return {**self.rule.exempt, "order": "groups are drawn by position in the matrix"}

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for the pre-aggregation, or its output for the rule."""
        self.pre_aggregation.check(n)
        self.rule.check_mixed(self.pre_aggregation.num_made(n))

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        unnamed = object.__new__(type(server))
        vars(unnamed).update(vars(server), clients=None)  # shares the values computed so far
        return self.rule(self.pre_aggregation(updates, server.rng), unnamed)
