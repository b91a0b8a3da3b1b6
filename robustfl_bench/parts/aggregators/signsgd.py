"""SignSGD with majority vote (Bernstein, Zhao, Azizzadenesheli, Anandkumar, ICLR 2019, arXiv 1810.05291)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustfl_bench.numerics.sample_weights import weighted_votes
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, RingForm, ServerView


@dataclass(frozen=True)
class SignSgd(Aggregator):
    """The sign of the sum of the clients' signs in every coordinate, so that the step is lr x +-1.

    The result is ``sign(sum of sign(x_i))`` with ``sign(0) = 0``: zeros abstain, and a tie changes no parameter.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it counts signs",
        "translation": "signs depend on the origin",
        "scale": "signs have no size",
        "robust": "a client moves every coordinate by its vote, however small the updates are",
    }

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(updates.votes.sign())

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(weighted_votes(updates).sign())

    @property
    def ring(self) -> RingForm:
        """Signs are summed on the ring as in BRACE."""
        return RingForm(Tensor.sign, lambda votes, n: votes.sign(), (-1.0, 0.0, 1.0))
