"""Label flipping: class l becomes c - 1 - l (Yin et al., ICML 2018, section 7; Fang et al., USENIX Security 2020)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.parts.attacks.base import Attack, Shard
from robustfl_bench.parts.attacks.labels import require_classes


@dataclass(frozen=True)
class LabelFlip(Attack):
    """Every Byzantine client replaces each label l by c - 1 - l, with c classes, and trains honestly on the result."""

    crafts = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        require_classes("label_flip", shard)
        return shard.x, shard.num_classes - 1 - shard.y
