"""ROP, relocated orthogonal perturbation (Özfatura, Özfatura, Küpçü, Gündüz, "Byzantines can also Learn from History",
IEEE TIFS 19, 2024, https://arxiv.org/abs/2208.09894)."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.attacks.base import Attack, AttackView
from robustfl_bench.parts.attacks.lie import lie_z


@dataclass(frozen=True)
class RelocatedOrthogonalPerturbation(Attack):
    """All attackers send a perturbation of length z around the point from which centred clipping starts.

    The point is ``relocation`` times the last aggregate plus 1 - ``relocation`` times the honest mean. The reference u
    mixes the same two vectors with ``mixing``; in the first round u is the honest mean, and the last aggregate counts
    as zero. The vector of ones without its part along u, scaled to length 1, is turned by ``angle`` degrees: the
    perturbation has the direction of sin(angle) times this vector plus cos(angle) times u / |u|. So 90 and 270 degrees
    are orthogonal to u, 180 is opposite to u. ``z`` null takes the z of ``lie``, from the numbers of clients. The paper
    targets clients with momentum, whose updates change little between rounds. The defaults are those of the authors'
    library.
    """

    z: Annotated[float | None, at_least(0)] = None
    """length of the perturbation; null: from the numbers of clients, as in lie"""
    angle: Annotated[float, between(0, 360)] = 270
    """degrees between perturbation and reference: 90 and 270 orthogonal, 180 opposite"""
    relocation: Annotated[float, between(0, 1)] = 1.0
    """weight of the last aggregate in the attacked point; the rest is the honest mean"""
    mixing: Annotated[float, between(0, 1)] = 0.9
    """weight of the last aggregate in the reference; the rest is the honest mean"""

    by_columns = True

    def craft(self, view: AttackView) -> Tensor:
        z = lie_z(view.n, view.num_byzantine) if self.z is None else self.z
        mean = view.upload(view.mean).double()
        before = torch.zeros_like(mean) if view.previous is None else view.previous.double()
        reference = mean if view.previous is None else self.mixing * before + (1 - self.mixing) * mean
        place = view.honest.place
        along = place.unit(reference)
        ones = torch.ones_like(mean)
        across = place.unit(ones - place.sum(ones @ along) * along)
        turn = math.radians(self.angle)
        moved = z * place.unit(math.sin(turn) * across + math.cos(turn) * along)
        return view.upload((self.relocation * before + (1 - self.relocation) * mean + moved).float())
