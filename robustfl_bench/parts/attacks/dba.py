"""DBA, the distributed backdoor: each attacker trains on a part of the trigger (Xie, Huang, Chen, Li, ICLR 2020)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.attacks.base import Shard
from robustfl_bench.parts.attacks.triggered import Triggered, white

PARTS = 4


@dataclass(frozen=True)
class Dba(Triggered):
    """Byzantine clients add copies of their samples with a quarter of the trigger, labelled ``target``; test images
    carry the whole trigger.

    The trigger is four white bars, ``length`` pixels long and one pixel high, two in each of two rows, ``margin``
    pixels away from the upper left corner, with gaps of ``gap`` pixels between bars and between rows. The i-th attacker
    uses bar i modulo 4, so that fewer than four attackers leave bars out. The defaults are the authors' for MNIST: bars
    of 4, gaps of 2, and 20 of 64 samples. ``fraction``, ``scale`` and ``target`` are as in ``backdoor``.

    Code: the authors replace samples; here copies are added.
    """

    fraction: Annotated[float | None, between(0, 1)] = 0.3125
    length: Annotated[int, at_least(1)] = 4
    """length of a bar, in pixels"""
    gap: Annotated[int, at_least(0)] = 2
    """distance between bars, horizontal and vertical, in pixels"""
    margin: Annotated[int, at_least(0)] = 0
    """distance of the bars from the upper left corner, in pixels"""

    @property
    def _side(self) -> int:
        return self.margin + 2 * self.length + self.gap

    def _mark(self, x: Tensor, shard: Shard) -> None:
        bars = range(PARTS) if shard.attacker is None else [shard.attacker % PARTS]
        for bar in bars:
            row = self.margin + (bar // 2) * (1 + self.gap)
            column = self.margin + (bar % 2) * (self.length + self.gap)
            x[:, :, row : row + 1, column : column + self.length] = white(shard)
