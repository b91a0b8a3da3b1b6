"""Bit flipping: faults of memory or transmission (Xie, Koyejo, Gupta, Phocas, 2018, https://arxiv.org/abs/1805.09682)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.base.errors import ConfigError, check_choice, check_fields


@dataclass(frozen=True)
class BitFlip(Attack):
    """Every attacker flips ``bits`` of the float32 numbers in the first ``coordinates`` of an honest upload.

    Bits count from 1, the lowest bit of the fraction, to 32, the sign; 24 to 31 are the exponent. The paper flips bits
    22, 30, 31 and 32 in the first 1000 coordinates, in each for one worker of 20, drawn anew; here all attackers flip
    them in all of these coordinates. ``vector`` is the upload: each attacker's ``own``, which needs data, or the
    ``honest_mean``. [32] with all coordinates (null) negates the upload, which Karimireddy et al. (ICML 2021) call bit
    flipping.
    """

    exempt: ClassVar[Mapping[str, str]] = {"finite": "a flipped exponent can stand for infinity"}

    bits: tuple[int, ...] = (22, 30, 31, 32)
    coordinates: int | None = 1000
    vector: str = "own"

    def __post_init__(self) -> None:
        if not self.bits or not all(isinstance(bit, int) and 1 <= bit <= 32 for bit in self.bits):
            raise ConfigError(f"attack.bits must be a list of whole numbers in [1, 32], got {list(self.bits)}")
        check_fields(self, coordinates=(1, math.inf))
        check_choice("vector", self.vector, ("own", "honest_mean"))

    def craft(self, view: AttackView) -> Tensor:
        rows = (view.own if self.vector == "own" else view.mean[None]).clone().contiguous()
        mask = sum(1 << (bit - 1) for bit in set(self.bits))
        mask -= 1 << 32 if mask >= 1 << 31 else 0  # as a signed number
        numbers = rows.view(torch.int32)[:, : self.coordinates]
        numbers.bitwise_xor_(mask)
        return rows if self.vector == "own" else rows[0]
