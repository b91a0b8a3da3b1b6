"""LIE, "a little is enough", also ALIE (Baruch et al., NeurIPS 2019, https://arxiv.org/abs/1902.06156)."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, check_choice, check_fields


def lie_z(n: int, num_byzantine: int) -> float:
    """The paper's z = Phi^-1((n - floor(n/2 + 1)) / (n - b)): how far attackers may go and still look like a majority.

    Attackers that are a majority themselves, or too few clients, put the quantile outside (0, 1), where z is not
    defined; it is then taken half a client away from the end.
    """
    honest = n - num_byzantine
    quantile = (n - (n // 2 + 1)) / honest
    margin = 0.5 / honest
    return NormalDist().inv_cdf(min(max(quantile, margin), 1 - margin))


@dataclass(frozen=True)
class LittleIsEnough(Attack):
    """All attackers send the mean honest update, moved by z standard deviations in every coordinate.

    ``z`` null takes it from the numbers of clients in the round (see ``lie_z``); RAGA fixes it at 0.7. ``sign`` is
    the side: plus in RAGA, and what BOBA's numbers show; minus in Karimireddy et al. 2022. Minus on what clients add
    to the model is plus on gradients, which they subtract. ``ddof`` 1 puts n - 1 into the denominator of the
    variance; 0, the original code's choice, puts n.
    """

    z: float | None = None
    sign: str = "plus"
    ddof: int = 1

    def __post_init__(self) -> None:
        check_fields(self, z=(-math.inf, math.inf))
        check_choice("sign", self.sign, ("minus", "plus"))
        check_fields(self, ddof=(0, 1))

    def craft(self, view: AttackView) -> Tensor:
        z = lie_z(view.n, view.num_byzantine) if self.z is None else self.z
        if self.ddof == 0:
            z *= math.sqrt(1 - 1 / view.honest.n)
        return view.mean + (z if self.sign == "plus" else -z) * view.std
