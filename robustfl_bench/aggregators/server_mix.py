"""Any rule mixed with the server's own update (BOBA, Bao et al., AISTATS 2024, appendix C.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from robustfl_bench.interfaces import Aggregator, ServerView, check_fields
from robustfl_bench.updates import Aggregate, Updates, mean_row


@dataclass(frozen=True)
class ServerMix(Aggregator):
    """``(1 - server_weight) * rule + server_weight * mean of the server's updates per class``. 0 is the rule itself.

    ``weights`` are the clients' share: they sum to ``1 - server_weight`` where the rule's sum to 1.
    """

    rule: Aggregator
    server_weight: float

    def __post_init__(self) -> None:
        check_fields(self, server_weight=(0, 1))

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """What the mixed rule does not promise, and what the server's part changes."""
        return {**self.rule.exempt, "unanimous": "part of it is the server's update"}

    def check(self, n: int) -> None:
        """What the mixed rule requires of n."""
        self.rule.check(n)

    def check_mixed(self, n: int) -> None:
        """What the mixed rule requires of n updates that are no client's own."""
        self.rule.check_mixed(n)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        aggregate, share = self.rule(updates, server), 1 - self.server_weight
        return replace(
            aggregate,
            vector=share * aggregate.vector + self.server_weight * mean_row(server.class_updates),
            weights=None if aggregate.weights is None else share * aggregate.weights,
        )
