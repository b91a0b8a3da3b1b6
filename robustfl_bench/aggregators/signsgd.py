"""SignSGD with majority vote (Bernstein, Zhao, Azizzadenesheli, Anandkumar, ICLR 2019, arXiv 1810.05291)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.interfaces import Aggregator, RingForm, ServerView
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class SignSgd(Aggregator):
    """The sign, in every coordinate, of the sum of the clients' signs: the step is lr x +-1.

    A tie gives 0, the parameter stays; zeros abstain.
    """

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(updates.votes.sign())

    @property
    def ring(self) -> RingForm:
        """Signs are summed on the ring as in BRACE."""
        return RingForm(Tensor.sign, lambda votes, n: votes.sign(), (-1.0, 0.0, 1.0))
