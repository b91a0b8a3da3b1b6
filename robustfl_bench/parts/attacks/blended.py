"""The blended backdoor: a faint pattern over the whole image (Chen, Liu, Li, Lu, Song, 2017, "Targeted backdoor attacks
on deep learning systems using data poisoning", https://arxiv.org/abs/1712.05526)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.attacks.base import Shard
from robustfl_bench.parts.attacks.triggered import Triggered


@dataclass(frozen=True)
class Blended(Triggered):
    """Byzantine clients add copies of their samples blended with a key pattern k, labelled ``target``, and scale up
    their updates.

    Pixels p in [0, 1] become ``alpha`` k + (1 - ``alpha``) p, in training and in the test. k is the paper's random
    pattern: every pixel is uniform in [0, 1], drawn from ``pattern_seed``, the same for all attackers. ``fraction``,
    ``scale`` and ``target`` are as in ``backdoor``.
    """

    fraction: Annotated[float | None, between(0, 1)] = 0.5
    alpha: Annotated[float, between(0, 1)] = 0.2
    """weight of the pattern in an image"""
    pattern_seed: Annotated[int, at_least(0)] = 0
    """seed of the random pattern, which all attackers share"""

    @property
    def _side(self) -> int:
        return 1

    def _mark(self, x: Tensor, shard: Shard) -> None:
        assert shard.scaling is not None
        rng = np.random.Generator(np.random.Philox(self.pattern_seed))  # one pattern for all clients
        key = torch.from_numpy(rng.random(tuple(x.shape[1:]), dtype="float32")).to(x)
        x[:] = shard.scaling.inputs(self.alpha * key + (1 - self.alpha) * shard.scaling.pixels(x))
