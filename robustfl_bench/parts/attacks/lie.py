"""LIE, "a little is enough", also ALIE (Baruch et al., NeurIPS 2019, https://arxiv.org/abs/1902.06156)."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import Option, between, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView


def lie_z(n: int, num_byzantine: int) -> float:
    """The paper's z = Phi^-1((n - floor(n/2 + 1)) / (n - b)), the largest shift that still looks like a majority.

    If the attackers are a majority themselves or alone, or with too few clients, the quantile is outside (0, 1), where
    z is not defined; the quantile is then taken half a client away from the end of that interval.
    """
    honest = max(n - num_byzantine, 1)
    quantile = (n - (n // 2 + 1)) / honest
    margin = 0.5 / honest
    return NormalDist().inv_cdf(min(max(quantile, margin), 1 - margin))


@dataclass(frozen=True)
class LittleIsEnough(Attack):
    """All attackers send the mean honest update, moved by z standard deviations in every coordinate.

    RAGA fixes ``z`` at 0.7; null is ``lie_z``. ``sign`` is plus in RAGA and, by its numbers, in BOBA; minus in
    Karimireddy et al. 2022. Minus on differences that are added to the model is plus on gradients, which are
    subtracted.

    With ``noise`` the shift has no common direction. RAGA's text calls LIE a small noise, and in its tables LIE acts
    like Gaussian noise (results/forensics.md).
    """

    z: Annotated[float | None, Option()] = None
    """shift in standard deviations; null: from the numbers of clients in the round, as in the original paper"""
    sign: Annotated[str, one_of("minus", "plus")] = "plus"
    """side of the honest mean gradient"""
    ddof: Annotated[int, between(0, 1)] = 1
    """the standard deviation has n - ddof in the denominator; 0: the original code"""
    noise: Annotated[str | None, one_of(each="a draw per attacker", shared="one for all", null="no factor")] = None
    """N(0, 1) factor of the shift per coordinate"""
    spread: Annotated[
        str | None,
        one_of(parameters="the model's parameters, one number", null="the honest clients', per coordinate"),
    ] = None
    """whose standard deviation"""

    @property
    def by_columns(self) -> bool:
        """Whether it needs no more than columns: the spread of all parameters is one number."""
        return self.spread is None

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
        drawn = torch.from_numpy(view.rng.standard_normal(shape, dtype=np.float32))
        return view.honest.place.share(drawn).to(view.mean)
