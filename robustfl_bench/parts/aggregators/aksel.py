"""Aksel: the updates nearest to the median of all (Boussetta, El-Mhamdi, Guerraoui, Maurer, Rouault, OPODIS 2020).

"AKSEL: fast Byzantine SGD", https://doi.org/10.4230/LIPIcs.OPODIS.2020.8.
"""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.medians import median
from robustfl_bench.numerics.selection import mean_of_lowest, require_majority
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Aksel(Aggregator):
    """Mean of the half of the updates that is nearest to the coordinate-wise median.

    Of n updates, the (n + 1) // 2 of least ``|x_i - m|^2`` are averaged, where m is the median: those whose distance is
    at most the median distance. Equals at the border share the places that are left. One sort and one pass over the
    updates, no distances between clients.

    Code: with ``num_byzantine`` f, the mode "n-f" of the authors' code, n - f updates are averaged. Their median of an
    even number is the lower of the two middle values; here it is the mean of both.
    """

    num_byzantine: Annotated[int | None, at_least(0)] = None
    """f: the nearest n - f updates are averaged; null: the nearest half"""

    def check(self, n: int) -> None:
        """Raise ConfigError unless honest clients are a majority of n."""
        require_majority("Aksel", n, self.num_byzantine or 0)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        n = updates.n
        self.check(n)
        kept = (n + 1) // 2 if self.num_byzantine is None else n - self.num_byzantine
        return mean_of_lowest(updates, updates.sq_dists_from(median(updates)), kept)
