"""Any rule mixed with the server's own update (BOBA, Bao et al., AISTATS 2024, appendix C.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.fields import between
from robustfl_bench.numerics.updates import Aggregate, Updates, mean_row
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@passes_on("rule")
@dataclass(frozen=True)
class ServerMix(Aggregator):
    """``(1 - server_weight) * rule + server_weight * mean of the server's updates per class``. A weight of 0 gives the
    rule itself.

    ``weights`` are those of the clients; they sum to ``1 - server_weight`` if the rule's weights sum to 1.
    """

    rule: Aggregator
    """the rule to mix in"""
    server_weight: Annotated[float, between(0, 1)]
    """lambda: share of the mean of the server's updates per class; 0: the rule alone"""

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """The promises that the mixed rule does not make, and the one that the server's part breaks."""
        return {**self.rule.exempt, "unanimous": "part of it is the server's update"}

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        aggregate, share = self.rule(updates, server), 1 - self.server_weight
        return replace(
            aggregate,
            vector=share * aggregate.vector + self.server_weight * mean_row(server.class_updates),
            weights=None if aggregate.weights is None else share * aggregate.weights,
        )
