"""BRACE: one-bit votes and a threshold (Fang, Liu, Zhao, Liu, WWW Companion 2025, section 3, equation 3)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustfl_bench.interfaces import Aggregator, ConfigError, RingForm, ServerView, check_fields, check_flags
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class Brace(Aggregator):
    """+1 in every coordinate where the clients' signs add up to more than ``threshold``, -1 in all others.

    The result (d,) is a direction: the step is lr x +-1. A sum equal to the threshold (lambda) gives -1, as printed,
    and so do all coordinates on which the clients are undecided: the rule is not symmetric, such a parameter grows.
    ``symmetric`` gives them 0, and -1 only below minus the threshold; with threshold 0 that is signSGD. The paper does
    not say what the sign of zero is: here 0, a client that abstains.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it counts signs",
        "translation": "signs depend on the origin",
        "scale": "signs have no size",
        "robust": "a client moves every coordinate by its vote, however small the updates are",
    }

    threshold: float = 5
    symmetric: bool = False

    def __post_init__(self) -> None:
        check_fields(self, threshold=(0, math.inf))
        check_flags(self, "symmetric")

    def check(self, n: int) -> None:
        """Raise ConfigError when n votes cannot exceed the threshold, so that the result would always be the same."""
        if n <= self.threshold:
            raise ConfigError(f"BRACE needs n > threshold, got n={n}, threshold={self.threshold:g}")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(self.consensus(updates.votes))

    def consensus(self, votes: Tensor) -> Tensor:
        """The outcome in every coordinate, from sums of signs."""
        above = (votes > self.threshold).float()
        below = votes < -self.threshold if self.symmetric else above == 0
        return above - below.float()

    @property
    def ring(self) -> RingForm:
        """Phases I (signs) and III (consensus) of the paper."""
        outcomes = (-1.0, 0.0, 1.0) if self.symmetric else (-1.0, 1.0)
        return RingForm(Tensor.sign, lambda votes, n: self.consensus(votes), outcomes)
