"""Clients that count by their samples in a rule (the truncation of sizes: Portnoy et al., arXiv 2004.04986)."""

from copy import copy
from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.abilities import overrides, passes_on
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, at_least, between
from robustfl_bench.numerics.sample_weights import capped
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@passes_on("rule")
@dataclass(frozen=True)
class Weighted(Aggregator):
    """``rule`` in its weighted form: each client counts by the number of samples that it reports.

    Attackers may report any number. With ``capped``, sizes are cut at the largest cap at which ``num_byzantine``
    clients never have more than ``share`` of all samples, whatever they report. The setting ``weighting`` makes this
    rule of any other; raises ConfigError for one that has no such form.
    """

    rule: Aggregator
    """the rule in which clients count by their samples"""
    capped: Flag = False
    """true: reported sizes are cut"""
    num_byzantine: Annotated[int, at_least(0)] = 0
    """f: the clients that have at most the share together"""
    share: Annotated[float, between(0, 1)] = 1 / 3
    """the most of all samples that f clients may have"""

    def __post_init__(self) -> None:
        if not overrides(self.rule, "aggregate_weighted"):
            name = type(self.rule).__name__
            raise ConfigError(f"{name} has no form in which clients count by their samples; set weighting=none")

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError: what a pre-aggregation mixes has no size."""
        raise ConfigError("clients cannot count by their samples after a pre-aggregation; set weighting=none or "
                          "pre_aggregation=none")  # fmt: skip

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        if self.capped:
            counted = copy(updates)  # shares the values computed so far
            counted.counts = capped(updates.counts, min(self.num_byzantine, updates.n), self.share)
            updates = counted
        return self.rule.aggregate_weighted(updates, server)
