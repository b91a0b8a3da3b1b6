"""SelfRej: rejects the clients whose own step harms the model most (BOBA's form of Fang et al., USENIX Sec. 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import mean_of_lowest, num_kept
from robustfl_bench.numerics.server_scores import stepped_losses
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class SelfRej(Aggregator):
    """Mean of the n - f updates with the least loss on the server's data after a step along this update alone.

    ``score_i = loss(params - step_size x_i)``; equals at the border share the places that are left.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "losses depend on the origin",
        "scale": "losses have a scale of their own",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: clients rejected"""

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client."""
        num_kept("SelfRej", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        kept = num_kept("SelfRej", updates.n, self.num_byzantine)
        return mean_of_lowest(updates, stepped_losses(updates, server), kept)

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)
