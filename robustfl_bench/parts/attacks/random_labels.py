"""Random labels: nothing to learn (Zhang et al., "Understanding deep learning requires rethinking generalization", ICLR
2017)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import between
from robustfl_bench.parts.attacks.base import Attack, Shard
from robustfl_bench.parts.attacks.labels import require_classes


@dataclass(frozen=True)
class RandomLabels(Attack):
    """Every Byzantine client labels each of a random ``fraction`` of its samples with a class drawn uniformly, and then
    trains honestly.

    One sample in c keeps its class by chance. Unlike ``label_shuffle``, this attack changes the number of samples per
    class, and so also changes a client with a single class.
    """

    fraction: Annotated[float, between(0, 1)] = 1.0
    """share of a Byzantine client's samples"""

    crafts = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        require_classes("random_labels", shard)
        labels = shard.y.clone()
        chosen = shard.draw(round(self.fraction * len(labels)))
        labels[chosen] = torch.from_numpy(shard.rng.integers(shard.num_classes, size=len(chosen))).to(labels)
        return shard.x, labels
