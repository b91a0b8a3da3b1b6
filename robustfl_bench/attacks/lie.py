"""LIE, "a little is enough", also ALIE (Baruch et al., NeurIPS 2019, https://arxiv.org/abs/1902.06156)."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.base.errors import check_choice, check_fields


def lie_z(n: int, num_byzantine: int) -> float:
    """The paper's z = Phi^-1((n - floor(n/2 + 1)) / (n - b)), the largest shift that still looks like a majority.

    If the attackers are a majority themselves, or with too few clients, the quantile is outside (0, 1), where z is not
    defined; the quantile is then taken half a client away from the end of that interval.
    """
    honest = n - num_byzantine
    quantile = (n - (n // 2 + 1)) / honest
    margin = 0.5 / honest
    return NormalDist().inv_cdf(min(max(quantile, margin), 1 - margin))


@dataclass(frozen=True)
class LittleIsEnough(Attack):
    """All attackers send the mean honest update, moved by z standard deviations in every coordinate.

    ``z`` null computes z from the numbers of clients in the round (see ``lie_z``); RAGA fixes it at 0.7. ``sign`` is
    the side: plus in RAGA and, by its numbers, in BOBA; minus in Karimireddy et al. 2022. Minus on differences that are
    added to the model is plus on gradients, which are subtracted. ``ddof`` 1 divides the variance by n - 1; 0, the
    original code's choice, by n.

    With ``noise`` the shift has no common direction: every standard deviation is multiplied by a draw of N(0, 1) per
    coordinate, independent for ``each`` attacker, or one per round ``shared`` by all. ``spread`` null takes the
    standard deviations over the honest clients; ``parameters`` takes one number for all coordinates, the standard
    deviation of the parameters of the current model. RAGA's text calls LIE a small noise, and in its tables LIE acts
    like Gaussian noise (results/forensics.md).
    """

    z: float | None = None
    sign: str = "plus"
    ddof: int = 1
    noise: str | None = None
    spread: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, z=(-math.inf, math.inf))
        check_choice("sign", self.sign, ("minus", "plus"))
        check_fields(self, ddof=(0, 1))
        if self.noise is not None:
            check_choice("noise", self.noise, ("each", "shared"))
        if self.spread is not None:
            check_choice("spread", self.spread, ("parameters",))

    def craft(self, view: AttackView) -> Tensor:
        z = lie_z(view.n, view.num_byzantine) if self.z is None else self.z
        return view.mean + (z if self.sign == "plus" else -z) * self._drawn(view) * self._std(view)

    def _std(self, view: AttackView) -> Tensor:
        """Standard deviations: (d,) over the honest clients, or () over the parameters of the model."""
        std, count = (view.std, view.honest.n) if self.spread is None else (view.params.std(), len(view.params))
        return std if self.ddof else math.sqrt(1 - 1 / count) * std

    def _drawn(self, view: AttackView) -> Tensor | int:
        """The factor of the standard deviations: (b, d) or (d,) draws of N(0, 1), or 1 without noise."""
        if self.noise is None:
            return 1
        shape = (view.num_byzantine, view.honest.d)[self.noise == "shared" :]
        return torch.from_numpy(view.rng.standard_normal(shape, dtype=np.float32)).to(view.mean)
