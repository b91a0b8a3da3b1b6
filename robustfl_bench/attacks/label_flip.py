"""Label flipping: class l becomes c - 1 - l (Yin et al., ICML 2018, section 7; Fang et al., USENIX Security 2020)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.interfaces import Attack, Shard


@dataclass(frozen=True)
class LabelFlip(Attack):
    """Every Byzantine client counts the classes of its samples from the other end, and then is honest."""

    crafts = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        return shard.x, shard.num_classes - 1 - shard.y
