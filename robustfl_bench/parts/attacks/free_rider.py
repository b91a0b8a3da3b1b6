"""Free riders: clients that receive the model and do not train (Lin, Du, Liu, https://arxiv.org/abs/1911.12560;
Fraboni, Vidal, Lorenzi, AISTATS 2021, https://arxiv.org/abs/2006.11901)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class FreeRider(Attack):
    """Every attacker sends the last global update again (``update``), or the received model unchanged (``model``).

    ``update`` is the delta weights attack of Lin et al., ``model`` the plain free rider of Fraboni et al.; in the first
    round both send no change. As a disguise, each attacker adds its own draw of N(0, s^2) with s = ``noise`` *
    t^(-``decay``) in round t (Fraboni et al.; with ``update`` the advanced attack of Lin et al., who keep s constant).
    The last global update is the last aggregate: a free rider can compute it from two models and the step size.
    """

    sends: Annotated[str, one_of(update="the last aggregate again", model="the received model, no change")] = "update"
    """what the attackers send"""
    noise: Annotated[float, at_least(0)] = 0.0
    """standard deviation of the added noise in the first round"""
    decay: Annotated[float, at_least(0)] = 0.0
    """the noise decreases with round t as t^-decay"""

    needs_honest, by_columns = False, True

    def craft(self, view: AttackView) -> Tensor:
        update = torch.zeros_like(view.params)
        if self.sends == "update" and view.previous is not None:
            update = view.previous
        if not self.noise:
            return view.upload(update)
        drawn = view.rng.standard_normal((view.num_byzantine, view.honest.d), dtype=np.float32)
        drawn *= self.noise * (view.round + 1) ** -self.decay
        return view.upload(update + view.honest.place.share(torch.from_numpy(drawn)).to(update))
