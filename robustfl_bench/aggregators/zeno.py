"""Zeno: keeps short updates that lower the server's loss (Xie et al., ICML 2019, https://arxiv.org/abs/1805.10032)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.base.errors import check_choice, check_fields
from robustfl_bench.numerics.ranking import mean_of_lowest, num_kept
from robustfl_bench.numerics.server_scores import stepped_losses
from robustfl_bench.numerics.updates import Aggregate, Updates


@dataclass(frozen=True)
class Zeno(Aggregator):
    """Mean of the n - f updates g of highest score ``loss(params) - loss(params - step_size g) - rho |g|^2``.

    The first term is the same for all updates and is left out. With ``penalty`` ``sumsq`` rho multiplies the sum of
    squares, as in the paper; with ``mean``, the mean square of the coordinates, as in the authors' code. The loss is
    over all server data.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "losses and lengths depend on the origin",
        "scale": "losses and their penalty have a scale of their own",
    }

    num_byzantine: int
    rho: float = 5e-4
    penalty: str = "sumsq"

    def __post_init__(self) -> None:
        check_fields(self, num_byzantine=(0, math.inf), rho=(0, math.inf))
        check_choice("penalty", self.penalty, ("sumsq", "mean"))

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client."""
        num_kept("Zeno", n, self.num_byzantine)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        kept = num_kept("Zeno", updates.n, self.num_byzantine)
        squares = updates.squares / (updates.d if self.penalty == "mean" else 1)
        return mean_of_lowest(updates, stepped_losses(updates, server) + self.rho * squares, kept)
