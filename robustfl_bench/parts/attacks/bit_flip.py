"""Bit flipping: faults of memory or transmission (Xie, Koyejo, Gupta, Phocas, 2018, https://arxiv.org/abs/1805.09682)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class BitFlip(Attack):
    """Every attacker flips ``bits`` of the float32 numbers in the first ``coordinates`` of an honest upload.

    The paper flips bits 22, 30, 31 and 32 in the first 1000 coordinates, in each for one worker of 20, drawn anew; here
    all attackers flip them in all of these coordinates. [32] with all coordinates (null) negates the upload, which
    Karimireddy et al. (ICML 2021) call bit flipping.
    """

    exempt: ClassVar[Mapping[str, str]] = {"finite": "a flipped exponent can stand for infinity"}

    bits: Annotated[tuple[int, ...], between(1, 32)] = (22, 30, 31, 32)
    """bits of a float32 number: 1 to 23 fraction, 24 to 31 exponent, 32 sign"""
    coordinates: Annotated[int | None, at_least(1)] = 1000
    """number of coordinates to change, from the first; null: all"""
    vector: Annotated[str, one_of(own="needs data", honest_mean="")] = "own"
    """the upload whose bits are flipped"""

    def __post_init__(self) -> None:
        if not self.bits:
            raise ConfigError("bits must not be empty")

    def craft(self, view: AttackView) -> Tensor:
        rows = (view.own if self.vector == "own" else view.mean[None]).clone().contiguous()
        mask = sum(1 << (bit - 1) for bit in set(self.bits))
        mask -= 1 << 32 if mask >= 1 << 31 else 0  # as a signed number
        numbers = rows.view(torch.int32)[:, : self.coordinates]
        numbers.bitwise_xor_(mask)
        return rows if self.vector == "own" else rows[0]
