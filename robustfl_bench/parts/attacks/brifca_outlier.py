"""The Byzantine machines of BRIFCA's experiments (Tao, Yang, Kulkarni, arXiv 2306.00638, section 6)."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, Number, at_least
from robustfl_bench.numerics.bernoulli import bernoulli_vectors
from robustfl_bench.parts.attacks.base import Attack, AttackView, ChoiceView, Shard


@dataclass(frozen=True)
class BrifcaOutlier(Attack):
    """Every attacker relabels its samples by a random parameter, and sends the update at ``scale`` times the model.

    The parameter ``own`` has Bernoulli(0.5) coordinates, scaled to length ``norm``; the attacker keeps its inputs, the
    targets become ``<x, own>`` plus N(0, ``noise_variance``). It attacks the model of least loss on these data, like an
    honest client, but computes its update at ``scale`` times the model. Needs linear regression.

    Code: the authors also choose by the loss at ``scale`` times the models (``loss_at_3theta=true``).
    """

    norm: Annotated[float, at_least(0)] = 3
    """length of an attacker's own parameter; the true parameters have length 1"""
    scale: Number = 3
    """attackers compute their updates at this multiple of the model"""
    noise_variance: Annotated[float, at_least(0)] = 0.2
    """variance of the noise of an attacker's targets"""
    loss_at_3theta: Flag = False
    """true: attackers choose the cluster of least loss at scale times the models (authors' code)"""

    needs_honest = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        x, y, rng = shard.x, shard.y, shard.rng
        if x.dim() != 2 or y.dim() != 1 or not y.is_floating_point():
            raise ConfigError("attack brifca_outlier needs vectors and one number each to predict (linear_mixture)")
        own = torch.from_numpy(bernoulli_vectors(1, x.shape[1], self.norm, rng)[0]).to(x)
        noise = torch.from_numpy(math.sqrt(self.noise_variance) * rng.standard_normal(len(x))).to(x)
        return x, x @ own + noise

    def choose(self, view: ChoiceView) -> Tensor:
        if view.own_losses is None:
            return super().choose(view)
        return view.own_losses(self.scale * view.params if self.loss_at_3theta else view.params).argmin(dim=1)

    def craft(self, view: AttackView) -> Tensor:
        return view.train_own(self.scale * view.params)
