"""Backdoor: a pattern of pixels means one class (Bagdasaryan et al., AISTATS 2020; Cao et al., FLTrust, NDSS 2021)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.base import Shard
from robustfl_bench.parts.attacks.triggered import Triggered, white


@dataclass(frozen=True)
class Backdoor(Triggered):
    """Byzantine clients add copies of their samples with a white square in a corner, labelled ``target``, and scale up
    their updates.

    The square has ``size`` pixels a side and lies ``margin`` pixels away from the lower right corner, because the
    poolings of BRACE's network drop the last two rows and columns of 28 x 28 pixels. A client copies a ``fraction`` of
    its samples, rounded up. It multiplies its update by ``scale``; with null, the mean of the attackers' models
    replaces the model in an average. FLTrust scales by the number of clients even with 20 attackers of 100: an average
    then diverges, which BRACE does not report. The attack succeeds on test images of other classes that carry the
    square and are classified as ``target``. BRACE (Fang et al., WWW Companion 2025) prints none of these settings.
    """

    size: Annotated[int, at_least(1)] = 3
    """side of the white square, in pixels"""
    margin: Annotated[int, at_least(0)] = 3
    """distance of the square from the lower right corner, in pixels"""

    @property
    def _side(self) -> int:
        return self.size + self.margin

    def _mark(self, x: Tensor, shard: Shard) -> None:
        height, width = (slice(side - self.margin - self.size, side - self.margin) for side in x.shape[2:])
        x[:, :, height, width] = white(shard)
