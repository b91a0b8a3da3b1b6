"""The base class of backdoors with a trigger, a mark on images that means one class."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.attacks.base import Attack, AttackView, Shard


@dataclass(frozen=True)
class Triggered(Attack):
    """Byzantine clients add copies of their samples with a trigger, labelled ``target``, and scale up their updates.

    A client copies a ``fraction`` of its samples, rounded up. It multiplies its update by ``scale``; with null, the
    mean of the attackers' models replaces the model in an average. The attack succeeds on test images of other classes
    that carry the trigger and are classified as ``target``.
    """

    target: Annotated[int, at_least(0)] = 0
    """class that the model should predict for images with the trigger"""
    fraction: Annotated[float | None, between(0, 1)] = None
    """share of the samples that are copied with the trigger; null: drawn for each client from (0, 1]"""
    scale: Annotated[float | None, at_least(0)] = None
    """factor of the update; null: clients in the round per attacker"""

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        fraction = 1 - shard.rng.random() if self.fraction is None else self.fraction
        x, y = self._triggered(shard, shard.draw(math.ceil(fraction * len(shard.y))))
        return torch.cat([shard.x, x]), torch.cat([shard.y, y])

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor]:
        return self._triggered(shard, (shard.y != self.target).nonzero().squeeze(1))

    def craft(self, view: AttackView) -> Tensor:
        scale = view.n / max(view.num_byzantine, 1) if self.scale is None else self.scale
        return view.upload(scale * view.upload(view.own))

    @abstractmethod
    def _mark(self, x: Tensor, shard: Shard) -> None:
        """Put the trigger on copies ``x`` (m, C, H, W) of some of the shard's images, in place."""

    @property
    @abstractmethod
    def _side(self) -> int:
        """The smallest image side, in pixels, that holds the trigger."""

    def _triggered(self, shard: Shard, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of the samples ``rows`` with the trigger, and ``target`` for each."""
        if shard.scaling is None or shard.x.dim() != 4 or min(shard.x.shape[2:]) < self._side:
            name = type(self).__name__.lower()
            raise ConfigError(f"attack {name} needs images of {self._side} pixels a side or more")
        if self.target >= shard.num_classes:
            raise ConfigError(f"attack.target is {self.target}, but the classes are 0 to {shard.num_classes - 1}")
        x = shard.x[rows]
        self._mark(x, shard)
        return x, torch.full_like(shard.y[rows], self.target)


def white(shard: Shard) -> Tensor:
    """The network input (C, 1, 1) of a white pixel."""
    assert shard.scaling is not None
    return shard.scaling.inputs(torch.ones_like(shard.scaling.mean))
