"""One label for all samples: ARFL's flipping (Li et al., arXiv 2101.05880, section 5.1)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.base import Attack, Shard
from robustfl_bench.attacks.labels import require_classes
from robustfl_bench.base.errors import ConfigError, check_fields, check_flags
from robustfl_bench.numerics.characters import ALPHABET, numbers


@dataclass(frozen=True)
class LabelFlipOne(Attack):
    """Every Byzantine client labels a random ``fraction`` of its samples with one random class, then trains honestly.

    Each client draws its own class. ``first_digit`` is for texts by character: ARFL's code replaces the drawn character
    by its index and keeps the first digit of the index, so that the label is a digit, mostly 1 to 7.
    """

    fraction: float = 1.0
    first_digit: bool = False

    crafts = False

    def __post_init__(self) -> None:
        check_fields(self, fraction=(0, 1))
        check_flags(self, "first_digit")

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
