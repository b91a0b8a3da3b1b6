"""Norm bounding: updates are clipped to a bound (Sun, Kairouz, Suresh, McMahan, arXiv 1911.07963, section 4.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from robustfl_bench.base.fields import SCALE, at_least
from robustfl_bench.numerics.clipping import clip_factors, median_norm
from robustfl_bench.numerics.sample_weights import weighted_median
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView, SumForm


@dataclass(frozen=True)
class NormBound(Aggregator):
    """Mean of the updates after clipping them to the norm ``bound``.

    The result is ``mean of x_i min(1, bound / |x_i|)``. The paper tries 3, 5 and 10 on EMNIST. Its second part, noise
    (weak differential privacy), is left out.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "no update is longer than the bound",
        "translation": "lengths depend on the origin",
        "scale": "the bound is a length",
    }

    bound: Annotated[float | None, at_least(0), SCALE] = 3.0
    """longest update; null: the median norm of the round"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        bound = median_norm(updates.norms) if self.bound is None else self.bound
        return updates.combine(clip_factors(updates.norms, bound) / updates.n)

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        bound = weighted_median(updates.norms, updates.counts) if self.bound is None else self.bound
        return updates.combine(clip_factors(updates.norms, bound) * updates.counts / updates.counts.sum())

    def from_sum(self) -> SumForm | None:
        """Clients clip their updates to a fixed bound; the median norm of a round is in no sum."""
        if self.bound is None:
            return None
        bound = self.bound
        return SumForm(lambda update: clip_factors(update.norms, bound) * update.columns[0], lambda total, n: total / n)
