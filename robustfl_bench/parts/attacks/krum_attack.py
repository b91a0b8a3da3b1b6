"""The Krum attack: the farthest update that Krum still selects (Fang et al., USENIX Security 2020, section 4.2)."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import one_of
from robustfl_bench.numerics.selection import nearest_sums
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.attacks.base import Attack, AttackView

LEAST = 1e-5  # share of the first scale at which the attackers give up


@dataclass(frozen=True)
class KrumAttack(Attack):
    """All attackers send ``-scale`` times the sign of an update, at the first scale tried that Krum selects.

    The rule in use plays no role. With ``knowledge`` full, the update is the one that Krum selects among the honest
    ones; the scale starts at the bound of the paper's theorem 1 and is halved until Krum, given the true number of
    attackers, selects one of the crafted updates. With ``partial`` knowledge, the update is the mean of those from the
    attackers' own data, and they try Krum on these and 1, 2, ... crafted copies until one copy is selected.

    In the paper the other attackers differ a little from the first (by 0.01); here all send the same. If clients send
    models, the attack works on the updates that lead to these models.
    """

    knowledge: Annotated[str, one_of(full="the honest updates", partial="only what they would send themselves")] = (
        "full"
    )
    """what the attackers know"""

    def craft(self, view: AttackView) -> Tensor:
        return view.upload(self._update(view.of_updates))

    def _update(self, view: AttackView) -> Tensor:
        if self.knowledge == "full":
            scores = nearest_sums(view.honest.sq_dists, max(view.honest.n - view.num_byzantine - 2, 1))
            direction = view.honest.matrix[scores.argmin()].sign()
            scale, _ = largest_selected(view.honest, direction, view.num_byzantine)
            return -scale * direction
        own = Updates(view.own)
        direction, scale = own.matrix.mean(dim=0).sign(), 0.0
        for copies in range(1, max(own.n, 2)):
            scale, selected = largest_selected(own, direction, copies)
            if selected:
                break
        return -scale * direction


def largest_selected(others: Updates, direction: Tensor, copies: int) -> tuple[float, bool]:
    """The scale, found by halving, at which Krum selects one of ``copies`` copies of ``-scale * direction`` beside
    ``others``, and True; if no scale succeeds, one of at most ``LEAST`` times the first scale, and False.

    Each scale costs a sort of (n, n) distances: ``|g + s p|^2 = |g|^2 + 2 s <g, p> + s^2 |p|^2``.
    """
    h, n = others.n, others.n + copies
    squares, along = others.gram.diagonal(), others.cross(direction[None]).squeeze(1)
    length = float(direction.double().square().sum())
    dists = torch.zeros(n, n, dtype=torch.float64, device=others.device)
    dists[:h, :h] = others.sq_dists

    def selected(scale: float) -> bool:
        away = (squares + 2 * scale * along + scale**2 * length).clamp(min=0)
        dists[h:, :h], dists[:h, h:] = away, away[:, None]
        return int(nearest_sums(dists, max(h - 2, 1)).argmin()) >= h

    nearest = float(nearest_sums(others.sq_dists, max(h - 2, 0), squared=False).min())
    scale = (nearest / max(h - copies - 1, 1) + float(others.norms.max())) / math.sqrt(others.d)
    least = LEAST * scale
    while scale > least:
        if selected(scale):
            return scale, True
        scale /= 2
    return scale, False
