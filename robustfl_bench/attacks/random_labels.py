"""Random labels: nothing to learn (Zhang et al., "Understanding deep learning requires rethinking generalization", ICLR
2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, Shard, check_fields


@dataclass(frozen=True)
class RandomLabels(Attack):
    """Every Byzantine client gives each of a random ``fraction`` of its samples a class drawn uniformly, and then is
    honest.

    One in c keeps its class by chance. ``label_shuffle`` keeps how often each class occurs, this does not: a client of
    one class alone is changed as well.
    """

    fraction: float = 1.0

    crafts = False

    def __post_init__(self) -> None:
        check_fields(self, fraction=(0, 1))

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        labels = shard.y.clone()
        chosen = shard.draw(round(self.fraction * len(labels)))
        labels[chosen] = torch.from_numpy(shard.rng.integers(shard.num_classes, size=len(chosen))).to(labels)
        return shard.x, labels
