"""Mimic: copy an honest client, so that it counts too much (Karimireddy et al., ICLR 2022, arXiv 2006.09365)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, ConfigError, check_fields


@dataclass(frozen=True)
class Mimic(Attack):
    """All attackers send the update of one honest client: nothing about it is an outlier.

    BOBA (Bao et al., AISTATS 2024, appendix C.1) copies "a particular client with biased label distribution" all
    through training. ``client`` null takes the honest client of the round whose label distribution is farthest from
    uniform in Euclidean distance, the first of equals; with everyone taking part that is the same client in all rounds.
    Otherwise it is the index of a client among the honest ones of the round. Karimireddy et al. choose by a power
    iteration over the first rounds, which would need memory between rounds and is left out.
    """

    client: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, client=(0, math.inf))

    def craft(self, view: AttackView) -> Tensor:
        target = most_skewed(view.label_counts) if self.client is None else self.client
        if target >= view.honest.n:
            raise ConfigError(f"attack.client is {target}, but the honest clients are 0 to {view.honest.n - 1}")
        return view.honest.matrix[target]


def most_skewed(label_counts: Tensor) -> int:
    """Row of ``label_counts`` (h, c) whose distribution is farthest from uniform; the first of equals."""
    counts = label_counts.double()
    # Up to a constant the squared distance is sum(p^2). From whole numbers it takes one rounding: equals stay equal.
    skew = (counts**2).sum(dim=1) / counts.sum(dim=1).clamp(min=1) ** 2
    return int(skew.cpu().numpy().argmax())
