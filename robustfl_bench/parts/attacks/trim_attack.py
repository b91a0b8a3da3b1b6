"""The Trim attack: against trimmed mean and median (Fang, Cao, Jia, Gong, USENIX Security 2020, section 4.3)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import Flag, at_least, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class TrimAttack(Attack):
    """In every coordinate the attackers send a value beyond the honest ones, against the sign of the honest mean.

    With ``knowledge`` full, the value is below the smallest honest one where the mean is positive, and above the
    largest elsewhere: the extreme value multiplied or divided by ``factor``, whichever leads outwards. All attackers
    use ``factor`` itself, or with ``random`` each draws a factor from [1, factor] in every coordinate. With ``partial``
    knowledge, only of the updates from their own data, they move the mean of these against its sign by 3.5 standard
    deviations (n - 1 in the denominator), or with ``random`` by 3 to 4.

    The paper takes the sign from all clients, with the attackers' honest updates; here it comes from the honest clients
    alone, so that full knowledge needs no data. If clients send models, the attack works on the updates that lead to
    these models.

    Code: later code of the paper's first author uses ``factor`` itself, the default; in the paper it is ``random``.
    """

    knowledge: Annotated[str, one_of(full="the honest updates", partial="only what they would send themselves")] = (
        "full"
    )
    """what the attackers know"""
    factor: Annotated[float, at_least(1)] = 2
    """with full knowledge, factor of the honest extremes"""
    random: Flag = False
    """true: values are drawn for every attacker and coordinate"""

    by_columns = True

    def craft(self, view: AttackView) -> Tensor:
        return view.upload(self._update(view.of_updates))

    def _update(self, view: AttackView) -> Tensor:
        if self.knowledge == "partial":
            mean = view.own.mean(dim=0)
            spread = view.own.std(dim=0) if len(view.own) > 1 else torch.zeros_like(mean)
            return mean - mean.sign() * self._draw(view, 3, 4, 3.5) * spread
        up = view.mean > 0
        extreme = view.honest.columns.amin(dim=0).where(up, view.honest.columns.amax(dim=0))
        factor = self._draw(view, 1, self.factor, self.factor)
        return torch.where((extreme > 0) == up, extreme / factor, extreme * factor)

    def _draw(self, view: AttackView, low: float, high: float, fixed: float) -> Tensor:
        """``fixed`` for all attackers, or with ``random`` uniform draws (b, d) from [low, high]."""
        if not self.random:
            return torch.full((), fixed, device=view.honest.device)
        draws = view.rng.random((view.num_byzantine, view.honest.d), dtype=np.float32)
        return view.honest.place.share(torch.from_numpy(low + (high - low) * draws).to(view.honest.device))
