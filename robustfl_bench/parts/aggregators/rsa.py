"""The server's step of RSA (Li et al., AAAI 2019, arXiv 1811.03761): each client votes on every coordinate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView, SumForm


@dataclass(frozen=True)
class Rsa(Aggregator):
    """``penalty`` times the sum over the clients of the sign of the server's model minus the client's.

    The result is ``penalty * sum of sign(x_i)``, the gradient of the penalty ``penalty * |client - server|_1`` that
    ties the models together. Use it with ``local_update=rsa`` and the same penalty. A client can move a coordinate by
    at most ``penalty``.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it counts signs",
        "translation": "signs depend on the origin",
        "scale": "signs have no size",
        "robust": "a client moves every coordinate by its vote, however small the updates are",
    }

    whole_matrices = 1

    penalty: Annotated[float, at_least(0)] = 0.005
    """lambda: how far one client can move a coordinate; local_update.penalty must be the same"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(updates.columns.sign().sum(dim=0).mul_(self.penalty))

    def from_sum(self) -> SumForm:
        """Clients send signs."""
        return SumForm(lambda update: update.columns[0].sign(), lambda votes, n: self.penalty * votes)
