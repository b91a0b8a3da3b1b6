"""The Krum attack: as far against the update as Krum still selects (Fang et al., USENIX Security 2020, section 4.2)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, check_choice
from robustfl_bench.numerics.ranking import nearest_sums
from robustfl_bench.updates import Updates

LEAST = 1e-5  # the attackers give up below this share of the first scale


@dataclass(frozen=True)
class KrumAttack(Attack):
    """All attackers send ``-scale`` times the sign of the update that they work against, whatever the rule is.

    With ``knowledge`` full that is the update which Krum selects among the honest ones; the scale starts at the bound
    of the paper's theorem 1 and is halved until Krum, told the true number of attackers, selects one of them. With
    ``partial`` knowledge it is the mean of what the attackers would send themselves; they try Krum on these and on
    1, 2, ... crafted copies until one is selected.

    The paper lets the other attackers differ a little from the first (by 0.01); here they are copies of it. Where
    clients send models, all of this is of the updates that lead to them.
    """

    knowledge: str = "full"

    def __post_init__(self) -> None:
        check_choice("knowledge", self.knowledge, ("full", "partial"))

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
    """The scale at which Krum selects one of so many ``copies`` of ``-scale * direction`` beside ``others``, found by
    halving, and whether it does: the last scale tried where it never does.

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

    nearest = float(nearest_sums(others.sq_dists.sqrt(), max(h - 2, 0)).min())
    scale = (nearest / max(h - copies - 1, 1) + float(others.norms.max())) / math.sqrt(others.d)
    least = LEAST * scale
    while scale > least:
        if selected(scale):
            return scale, True
        scale /= 2
    return scale, False
