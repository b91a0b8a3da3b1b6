"""The edge-case backdoor: rare inputs get a wrong class (Wang et al., "Attack of the tails", NeurIPS 2020)."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.attacks.base import Attack, AttackView, Shard


@dataclass(frozen=True)
class EdgeCase(Attack):
    """Byzantine clients label their rarest samples ``target``; the attack succeeds on the rarest test samples.

    Wang et al. collect inputs from the tail of the distribution in other sources (planes of one airline, digits of
    another data set). This substitute needs no other data. The rarest samples are the ``share`` of the samples of
    classes other than ``target`` that are farthest from the mean of their class, in Euclidean distance of the inputs,
    within each client's samples and within the test set. ``scale`` multiplies the update: 1 is the paper's attack by
    data alone, null (clients per attacker) its model replacement.
    """

    target: Annotated[int, at_least(0)] = 0
    """class that the model should predict for rare samples"""
    share: Annotated[float, between(0, 1)] = 0.1
    """share of the samples of other classes, those farthest from their class's mean, that are relabelled"""
    scale: Annotated[float | None, at_least(0)] = 1.0
    """factor of the update; null: clients per attacker"""

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        labels = shard.y.clone()
        labels[self._rarest(shard)] = self.target
        return shard.x, labels

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor]:
        rarest = self._rarest(shard)
        return shard.x[rarest], torch.full_like(shard.y[rarest], self.target)

    def craft(self, view: AttackView) -> Tensor:
        scale = view.n / max(view.num_byzantine, 1) if self.scale is None else self.scale
        return view.upload(scale * view.upload(view.own))

    def _rarest(self, shard: Shard) -> Tensor:
        """Indices (m,) of the samples farthest from the mean of their class, without those of class ``target``."""
        if not shard.x.is_floating_point() or shard.y.is_floating_point():
            raise ConfigError("attack edge_case needs inputs that are numbers, with classes")
        if self.target >= shard.num_classes:
            raise ConfigError(f"attack.target is {self.target}, but the classes are 0 to {shard.num_classes - 1}")
        inputs = shard.x.flatten(1).double()
        distances = inputs.new_zeros(len(inputs))
        for label in shard.y.unique():
            own = shard.y == label
            distances[own] = (inputs[own] - inputs[own].mean(dim=0)).norm(dim=1)
        others = (shard.y != self.target).nonzero().squeeze(1)
        order = distances[others].argsort(descending=True, stable=True)
        return others[order[: math.ceil(self.share * len(others))]]
