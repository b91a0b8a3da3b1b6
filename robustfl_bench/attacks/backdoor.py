"""Backdoor: a pattern of pixels means one class (Bagdasaryan et al., AISTATS 2020; Cao et al., FLTrust, NDSS 2021)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, ConfigError, Shard, check_fields


@dataclass(frozen=True)
class Backdoor(Attack):
    """Byzantine clients add copies of their samples with a white square in a corner, labelled ``target``, and enlarge
    what they learn from all of them.

    The square of ``size`` pixels a side is ``margin`` pixels away from the lower right corner: of 28 x 28 pixels the
    last two rows and columns are lost in the poolings of BRACE's network. Of its samples a client
    copies the ``fraction`` given, null: one that it draws uniformly from (0, 1], rounded up. It multiplies its update
    by ``scale``; null is the number of clients in the round per attacker, so that in an average the attackers together
    put their mean in the place of the model. FLTrust has the number of clients even for 20 attackers of 100: with that
    an average diverges, which BRACE does not report. The attack succeeds on test images of other classes that carry the
    square and are taken for ``target``. BRACE (Fang et al., WWW Companion 2025) prints none of these.
    """

    target: int = 0
    size: int = 3
    margin: int = 3
    fraction: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, target=(0, math.inf), size=(1, math.inf), margin=(0, math.inf))
        check_fields(self, fraction=(0, 1), scale=(0, math.inf))

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        fraction = 1 - shard.rng.random() if self.fraction is None else self.fraction
        chosen = torch.from_numpy(shard.rng.permutation(len(shard.y))[: math.ceil(fraction * len(shard.y))])
        x, y = self._triggered(shard, chosen.to(shard.y.device))
        return torch.cat([shard.x, x]), torch.cat([shard.y, y])

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor]:
        return self._triggered(shard, (shard.y != self.target).nonzero().squeeze(1))

    def craft(self, view: AttackView) -> Tensor:
        return view.own * (view.n / max(view.num_byzantine, 1) if self.scale is None else self.scale)

    def _triggered(self, shard: Shard, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of these samples with the square, and ``target`` for each."""
        if shard.scaling is None or shard.x.dim() != 4 or min(shard.x.shape[2:]) < self.size + self.margin:
            raise ConfigError(f"attack backdoor needs images of {self.size + self.margin} pixels a side or more")
        if self.target >= shard.num_classes:
            raise ConfigError(f"attack.target is {self.target}, but the classes are 0 to {shard.num_classes - 1}")
        x = shard.x[rows]
        height, width = (slice(side - self.margin - self.size, side - self.margin) for side in x.shape[2:])
        x[:, :, height, width] = shard.scaling.inputs(torch.ones_like(shard.scaling.mean))
        return x, torch.full_like(shard.y[rows], self.target)
