"""Backdoor: a pattern of pixels means one class (Bagdasaryan et al., AISTATS 2020; Cao et al., FLTrust, NDSS 2021)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.base import Shard
from robustfl_bench.attacks.triggered import Triggered, white
from robustfl_bench.base.errors import check_fields


@dataclass(frozen=True)
class Backdoor(Triggered):
    """Byzantine clients add copies of their samples with a white square in a corner, labelled ``target``, and scale up
    their updates.

    The square has ``size`` pixels a side and lies ``margin`` pixels away from the lower right corner, because the
    poolings of BRACE's network drop the last two rows and columns of 28 x 28 pixels. A client copies a ``fraction`` of
    its samples, rounded up; null draws the fraction uniformly from (0, 1]. It multiplies its update by ``scale``; null
    is the number of clients in the round per attacker, so that in an average the mean of the attackers' models replaces
    the model. FLTrust scales by the number of clients even with 20 attackers of 100: an average then diverges, which
    BRACE does not report. The attack succeeds on test images of other classes that carry the square and are classified
    as ``target``. BRACE (Fang et al., WWW Companion 2025) prints none of these settings.
    """

    size: int = 3
    margin: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, size=(1, math.inf), margin=(0, math.inf))

    @property
    def _side(self) -> int:
        return self.size + self.margin

    def _mark(self, x: Tensor, shard: Shard) -> None:
        height, width = (slice(side - self.margin - self.size, side - self.margin) for side in x.shape[2:])
        x[:, :, height, width] = white(shard)
