"""BRACE: one-bit votes and a threshold (Fang, Liu, Zhao, Liu, WWW Companion 2025, section 3, equation 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, at_least
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, RingForm, ServerView


@dataclass(frozen=True)
class Brace(Aggregator):
    """+1 in every coordinate in which the clients' signs add up to more than ``threshold``, -1 in all others.

    With ``V = sum of sign(x_i)``, a coordinate is ``+1 if V > threshold, else -1``. The result (d,) is a direction: the
    step is lr x +-1. A sum equal to the threshold (lambda) gives -1, as printed, and so does every coordinate without a
    clear majority: the rule is not symmetric, and such a parameter grows. With ``symmetric`` a coordinate is
    ``+1 if V > threshold, -1 if V < -threshold, else 0``; with threshold 0 this is signSGD. The paper does not define
    the sign of zero; here it is 0, so the client abstains.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it counts signs",
        "translation": "signs depend on the origin",
        "scale": "signs have no size",
        "robust": "a client moves every coordinate by its vote, however small the updates are",
    }

    threshold: Annotated[float, at_least(0)] = 5
    """lambda: a sum of signs above it gives +1, any other -1"""
    symmetric: Flag = False
    """true: -1 only below minus the threshold, 0 between"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n votes cannot exceed the threshold, so that the result would be constant."""
        if n <= self.threshold:
            raise ConfigError(f"BRACE needs n > threshold, got n={n}, threshold={self.threshold:g}")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(self.consensus(updates.votes))

    def consensus(self, votes: Tensor) -> Tensor:
        """The outcome (d,) of the votes, given the sums of signs (d,)."""
        above = (votes > self.threshold).float()
        below = votes < -self.threshold if self.symmetric else above == 0
        return above - below.float()

    @property
    def ring(self) -> RingForm:
        """Phases I (signs) and III (consensus) of the paper."""
        outcomes = (-1.0, 0.0, 1.0) if self.symmetric else (-1.0, 1.0)
        return RingForm(Tensor.sign, lambda votes, n: self.consensus(votes), outcomes)
