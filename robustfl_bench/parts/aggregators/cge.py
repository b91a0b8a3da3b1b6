"""CGE, comparative gradient elimination: the shortest updates count.

Gupta, Liu, Vaidya, "Byzantine fault-tolerance in peer-to-peer distributed gradient-descent", arXiv 2101.12316;
first for linear regression in Gupta, Vaidya, arXiv 1903.08752.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import mean_of_lowest, num_kept
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Cge(Aggregator):
    """Mean of the n - f updates of least Euclidean norm; equals at the border share the places that are left.

    The result is ``mean of x_i over the n - f least |x_i|``; the papers take the sum, which is the same with another
    learning rate. An attacker who sends a short update is never left out.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "lengths depend on the origin",
    }

    num_byzantine: Annotated[int, at_least(0)]
    """f: the n - f shortest updates are averaged"""

    def check(self, n: int) -> None:
        """Raise ConfigError when f leaves no client."""
        num_kept("CGE", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return mean_of_lowest(updates, updates.norms, num_kept("CGE", updates.n, self.num_byzantine))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)
