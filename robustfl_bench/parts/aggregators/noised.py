"""Noise on the aggregate of a rule (Sun, Kairouz, Suresh, McMahan, arXiv 1911.07963, section 4.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import torch

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@passes_on("rule")
@dataclass(frozen=True)
class Noised(Aggregator):
    """The aggregate of ``rule`` plus Gaussian noise of standard deviation ``noise`` in every coordinate.

    With norm bounding as the rule it is the paper's weak differential privacy: too little noise for a guarantee. It
    blurs the small step that a backdoor still takes within the bound.

    Code: the authors' adds noise to the sum of n clipped updates, so it is ``noise`` times n there, 0 by default.
    Reimplementations differ in the value and in what gets the noise: each client's model, or the mean, at 0.025 times
    the bound divided by n.
    """

    rule: Aggregator
    """the rule whose aggregate gets the noise"""
    noise: Annotated[float, at_least(0)] = 0.025
    """standard deviation of the noise in a coordinate of the aggregate; 0: the rule alone"""

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """The promises that the rule does not make, and those that noise breaks."""
        return {**self.rule.exempt, "unanimous": "it adds noise", "scale": "the noise is a length"}

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        aggregate = self.rule(updates, server)
        if self.noise == 0:
            return aggregate
        drawn = updates.place.share(torch.from_numpy(server.rng.normal(scale=self.noise, size=updates.d)))
        return replace(aggregate, vector=aggregate.vector + drawn.to(aggregate.vector), weights=None)
