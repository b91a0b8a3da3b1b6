"""Zeno: keeps short updates that lower the server's loss (Xie et al., ICML 2019, https://arxiv.org/abs/1805.10032)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import mean_of_lowest, num_kept
from robustfl_bench.numerics.server_scores import stepped_losses
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Zeno(Aggregator):
    """Mean of the n - f updates g of highest score ``loss(params) - loss(params - step_size g) - rho |g|^2``.

    The first term is the same for all updates and is left out. The loss is over all server data.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "losses and lengths depend on the origin",
        "scale": "losses and their penalty have a scale of their own",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: clients rejected"""
    rho: Annotated[float, at_least(0)] = 5e-4
    """weight of the penalty on long updates"""
    penalty: Annotated[
        str, one_of(sumsq="sum over the coordinates, paper", mean="over the coordinates, authors' code")
    ] = "sumsq"
    """square of an update that rho multiplies"""

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client."""
        num_kept("Zeno", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        kept = num_kept("Zeno", updates.n, self.num_byzantine)
        squares = updates.squares / (updates.d if self.penalty == "mean" else 1)
        return mean_of_lowest(updates, stepped_losses(updates, server) + self.rho * squares, kept)

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)
