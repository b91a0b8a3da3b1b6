"""PoisonedFL: one random direction in all rounds, at a length that the model's reaction sets (Xie et al., CVPR 2025).

Xie, Fang, Gong, "Model poisoning attacks to federated learning via multi-round consistency",
https://arxiv.org/abs/2404.15611.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted


@dataclass(frozen=True)
class PoisonedFl(Attack):
    """All attackers push every coordinate of the model in the same direction in all rounds, by a random sign vector s.

    They see the global model and nothing of honest clients. With g the last global update and k what they sent, they
    send c |g| v s, where v is |g - (|g| / |k|) k| per coordinate, scaled to length 1: where the model changed otherwise
    than they wanted, they push more. c begins at ``factor``. Every ``interval`` rounds they test whether the model went
    along with s since the last test: if fewer of its d coordinates changed in the direction of s than a fair coin
    gives with the probability ``confidence``, c is multiplied by ``shrink``, unless it would fall below ``least``.
    Nothing is sent in the first round, before there is a global update. A coordinate that has not changed counts by the
    sign of the parameter, as in the authors' code.

    The global update is the last aggregate: an attacker computes it from two models and the step size.
    """

    factor: Annotated[float, at_least(0)] = 8.0
    """c at first: length of the attackers' updates in units of the last global update"""
    interval: Annotated[int, at_least(1)] = 50
    """rounds between two tests of whether the model follows"""
    shrink: Annotated[float, between(0, 1)] = 0.7
    """factor of c after a test that fails"""
    least: Annotated[float, at_least(0)] = 0.5
    """c does not fall below this"""
    confidence: Annotated[float, between(0.5, 0.999999)] = 0.99
    """probability with which signs that follow nothing fail the test"""

    needs_honest, by_columns = False, True

    def craft(self, view: AttackView) -> Crafted:
        memory, place = dict(view.memory), view.honest.place
        if not memory:
            drawn = view.rng.choice(np.array([-1.0, 1.0], dtype=np.float32), view.honest.d)
            signs = place.share(torch.from_numpy(drawn)).to(view.params)
            memory = {"signs": signs, "sent": torch.zeros_like(signs), "factor": torch.tensor(self.factor)}
        if "start" in memory and view.round % self.interval == 0:
            memory["factor"] = self._tested(memory, view)
        if (view.round - 1) % self.interval == 0 or "start" not in memory:
            memory["start"] = view.params
        if view.previous is not None:
            change = -view.previous.double()
            length = place.norm(torch.linalg.vector_norm(change))
            expected = length * place.unit(memory["sent"].double())
            sizes = float(memory["factor"]) * length * place.unit((change - expected).abs())
            memory["sent"] = (sizes * memory["signs"]).float()
        return Crafted(view.upload(-memory["sent"]), memory)

    def _tested(self, memory: dict[str, Tensor], view: AttackView) -> Tensor:
        """The factor c after a test of the model's change since ``start``."""
        d, factor = view.honest.d, memory["factor"]
        change = view.params - memory["start"]
        follows = change.where(change != 0, view.params).sign() == memory["signs"]
        enough = int(view.honest.place.sum(follows.sum())) >= needed(d, self.confidence)
        return factor if enough or self.shrink * float(factor) < self.least else self.shrink * factor


def needed(d: int, confidence: float) -> int:
    """The ``confidence`` quantile of the number of heads of d fair coins, by the normal distribution."""
    return round(d / 2 + NormalDist().inv_cdf(confidence) * math.sqrt(d) / 2)
