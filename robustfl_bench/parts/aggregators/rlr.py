"""RLR, robust learning rate (Ozdayi, Kantarcioglu, Gel, AAAI 2021, https://arxiv.org/abs/2007.03767)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, RingForm, ServerView, SumForm


@dataclass(frozen=True)
class Rlr(Aggregator):
    """The clients' vote or mean, negated in every coordinate in which the sum of their signs is below ``threshold`` in
    size.

    With ``V = sum of sign(x_i)``, a coordinate is ``s if |V| >= threshold, else -s``. ``direction`` sets s: the
    ``sign`` of V, with one bit per client, as BRACE accounts for this baseline (Fang et al., WWW Companion 2025,
    section 5.2), so that the step is lr x +-1 and a tie gives 0; or the ``mean`` of the updates, as in the original
    paper. BRACE does not print the threshold; its own lambda is 5. With threshold 0 no coordinate is negated.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "it counts signs",
        "translation": "signs depend on the origin",
        "scale": "signs have no size",
        "robust": "a client moves every coordinate by its vote, however small the updates are",
    }

    threshold: Annotated[float, at_least(0)] = 5
    """a coordinate whose sum of signs is smaller than this in size steps backwards"""
    direction: Annotated[str, one_of(sign="of the sum of signs, one bit per client", mean="of the updates")] = "sign"
    """the aggregate before that"""

    def check(self, n: int) -> None:
        """Raise ConfigError if n votes cannot reach the threshold, so that all coordinates would be negated."""
        if n < self.threshold:
            raise ConfigError(f"RLR needs n >= threshold, got n={n}, threshold={self.threshold:g}")

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        forward = updates.votes.sign() if self.direction == "sign" else updates.mean
        return Aggregate(self.turned(forward, updates.votes))

    def turned(self, forward: Tensor, votes: Tensor) -> Tensor:
        """The direction (d,), negated where the sums of signs are small."""
        return forward.where(votes.abs() >= self.threshold, -forward)

    @property
    def ring(self) -> RingForm | None:
        """Signs are summed on the ring as in BRACE; the mean of the updates would need a ring of its own."""
        if self.direction == "mean":
            return None
        return RingForm(Tensor.sign, lambda votes, n: self.turned(votes.sign(), votes), (-1.0, 0.0, 1.0))

    def from_sum(self) -> SumForm | None:
        """For the mean, a client sends its signs and its update."""
        if self.direction == "sign":
            return super().from_sum()

        def agreed(total: Tensor, n: int) -> Tensor:
            votes, sums = total.chunk(2)
            return self.turned(sums / n, votes)

        return SumForm(lambda update: torch.cat([update.columns[0].sign(), update.columns[0]]), agreed)
