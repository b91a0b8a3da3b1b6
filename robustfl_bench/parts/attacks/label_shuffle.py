"""Shuffled labels: ARFL's shuffling (Li et al., arXiv 2101.05880, section 5.1)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import between
from robustfl_bench.parts.attacks.base import Attack, Shard


@dataclass(frozen=True)
class LabelShuffle(Attack):
    """Every Byzantine client permutes the labels of a random ``fraction`` of its samples, and then trains honestly.

    The number of samples per class stays the same, so a client with a single class is not changed.
    """

    fraction: Annotated[float, between(0, 1)] = 1.0
    """share of a Byzantine client's samples"""

    crafts = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        labels = shard.y.clone()
        chosen = shard.draw(round(self.fraction * len(labels)))
        order = torch.from_numpy(shard.rng.permutation(len(chosen))).to(labels.device)
        labels[chosen] = shard.y[chosen[order]]
        return shard.x, labels
