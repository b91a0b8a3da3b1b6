"""One label for all samples: ARFL's flipping (Li et al., arXiv 2101.05880, section 5.1)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, between
from robustfl_bench.numerics.characters import ALPHABET, numbers
from robustfl_bench.parts.attacks.base import Attack, Shard
from robustfl_bench.parts.attacks.labels import require_classes


@dataclass(frozen=True)
class LabelFlipOne(Attack):
    """Every Byzantine client labels a random ``fraction`` of its samples with one random class, then trains honestly.

    Each client draws its own class.

    Code: in texts by character, ARFL's replaces the drawn character by its index and keeps the first digit of the
    index, so that the label is a digit, mostly 1 to 7 (``first_digit``).
    """

    fraction: Annotated[float, between(0, 1)] = 1.0
    """share of a Byzantine client's samples"""
    first_digit: Flag = False
    """true: the label is the first digit of a drawn character's index (ARFL's code, Shakespeare)"""

    crafts = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        require_classes("label_flip_one", shard)
        label = int(shard.rng.integers(shard.num_classes))
        if self.first_digit:
            if shard.num_classes != len(ALPHABET):
                raise ConfigError("attack.first_digit is for labels that are characters; take dataset=shakespeare")
            label = int(numbers(str(label))[0])
        labels = shard.y.clone()
        labels[shard.draw(round(self.fraction * len(labels)))] = label
        return shard.x, labels
