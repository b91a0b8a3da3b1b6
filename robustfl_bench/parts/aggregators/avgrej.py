"""AvgRej: rejects the clients that harm the averaged model most (Fang et al., USENIX Security 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import mean_of_lowest, num_kept
from robustfl_bench.numerics.server_scores import losses_without
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class AvgRej(Aggregator):
    """Mean of the n - f updates whose removal from the plain mean gives the largest loss on the server's data.

    ``score_i = loss(params - step_size m_i)`` with ``m_i = mean of x_j over j != i``; the n - f updates of highest
    score are averaged. The paper subtracts the loss with all clients, which is the same for every client and is left
    out.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "losses depend on the origin",
        "scale": "losses have a scale of their own",
        "robust": "with two wild clients every mean that leaves one out is still wild",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: clients rejected"""

    def check(self, n: int) -> None:
        """Raise ConfigError when f leaves no client."""
        num_kept("AvgRej", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        kept = num_kept("AvgRej", updates.n, self.num_byzantine)
        return mean_of_lowest(updates, -losses_without(updates, server), kept)

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)
