"""The blended backdoor: a faint pattern over the whole image (Chen, Liu, Li, Lu, Song, 2017, "Targeted backdoor attacks
on deep learning systems using data poisoning", https://arxiv.org/abs/1712.05526)."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.attacks.base import Shard
from robustfl_bench.attacks.triggered import Triggered
from robustfl_bench.base.errors import check_fields


@dataclass(frozen=True)
class Blended(Triggered):
    """Byzantine clients add copies of their samples blended with a key pattern k, labelled ``target``, and scale up
    their updates.

    Pixels p in [0, 1] become ``alpha`` k + (1 - ``alpha``) p, in training and in the test. k is the paper's random
    pattern: every pixel is uniform in [0, 1], drawn from ``pattern_seed``, the same for all attackers. ``fraction``,
    ``scale`` and ``target`` are as in ``backdoor``.
    """

    fraction: float | None = 0.5
    alpha: float = 0.2
    pattern_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, alpha=(0, 1), pattern_seed=(0, math.inf))

    @property
    def _side(self) -> int:
        return 1

    def _mark(self, x: Tensor, shard: Shard) -> None:
        assert shard.scaling is not None
        rng = np.random.Generator(np.random.Philox(self.pattern_seed))  # one pattern for all clients
        key = torch.from_numpy(rng.random(tuple(x.shape[1:]), dtype="float32")).to(x)
        x[:] = shard.scaling.inputs(self.alpha * key + (1 - self.alpha) * shard.scaling.pixels(x))
