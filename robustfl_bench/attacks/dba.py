"""DBA, the distributed backdoor: each attacker trains on a part of the trigger (Xie, Huang, Chen, Li, ICLR 2020)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.base import Shard
from robustfl_bench.attacks.triggered import Triggered, white
from robustfl_bench.base.errors import check_fields

PARTS = 4


@dataclass(frozen=True)
class Dba(Triggered):
    """Byzantine clients add copies of their samples with a quarter of the trigger, labelled ``target``; test images
    carry the whole trigger.

    The trigger is four white bars, ``length`` pixels long and one pixel high, two in each of two rows, ``margin``
    pixels away from the upper left corner, with gaps of ``gap`` pixels between bars and between rows. The i-th attacker
    uses bar i modulo 4, so that fewer than four attackers leave bars out. The defaults are the authors' for MNIST: bars
    of 4, gaps of 2, and 20 of 64 samples (the authors replace the samples, here copies are added). ``fraction``,
    ``scale`` and ``target`` are as in ``backdoor``.
    """

    fraction: float | None = 0.3125
    length: int = 4
    gap: int = 2
    margin: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, length=(1, math.inf), gap=(0, math.inf), margin=(0, math.inf))

    @property
    def _side(self) -> int:
        return self.margin + 2 * self.length + self.gap

    def _mark(self, x: Tensor, shard: Shard) -> None:
        bars = range(PARTS) if shard.attacker is None else [shard.attacker % PARTS]
        for bar in bars:
            row = self.margin + (bar // 2) * (1 + self.gap)
            column = self.margin + (bar % 2) * (self.length + self.gap)
            x[:, :, row : row + 1, column : column + self.length] = white(shard)
