"""Mimic: copy an honest client, so that it counts too much (Karimireddy et al., ICLR 2022, arXiv 2006.09365)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted


@dataclass(frozen=True)
class Mimic(Attack):
    """All attackers send the update of one honest client, so that they are no outliers.

    BOBA (Bao et al., AISTATS 2024, appendix C.1) copies "a particular client with biased label distribution" throughout
    training. ``client`` null takes the honest client of the round whose label distribution is farthest from uniform in
    Euclidean distance, in a tie the first; if all clients take part, that is the same client in all rounds. Otherwise
    ``client`` is the index of a client among the honest ones of the round.

    With a number of ``warmup`` rounds, the copied client is that of Karimireddy et al. During warm-up the attackers
    track the mean mu of the honest updates g_i and the direction z in which these differ most: in round t (from 0),
    mu <- (t mu + mean g_i) / (t + 1), then with v = sum_i <g_i - mu, z> (g_i - mu), z <- t z + v / |v|, normalised to
    length 1; z is drawn at random before the first round. They copy the client of largest <g_i, z> and, after warm-up,
    keep the client of its last round. In a round without that client they copy the client of largest <g_i, z>.

    Code: Karimireddy et al.'s is followed here; their paper keeps the client of the largest |sum of <g_i, z>|.
    """

    client: Annotated[int | None, at_least(0)] = None
    """index of the honest client to copy; null: the one whose labels are farthest from uniform"""
    warmup: Annotated[int | None, at_least(1)] = None
    """rounds spent to find the client whose updates vary most (Karimireddy et al.); null: no search"""

    @property
    def whole_matrices(self) -> int:  # type: ignore[override]
        """The updates, and their differences from a mean, in float64."""
        return 0 if self.warmup is None else 4

    def __post_init__(self) -> None:
        if self.client is not None and self.warmup is not None:
            raise ConfigError("mimic copies a fixed client or one it finds: set attack.client or attack.warmup to null")

    by_columns = True

    def craft(self, view: AttackView) -> Tensor | Crafted:
        if self.warmup is not None:
            return _follow(view, self.warmup)
        target = most_skewed(view.label_counts) if self.client is None else self.client
        if target >= view.honest.n:
            raise ConfigError(f"attack.client is {target}, but the honest clients are 0 to {view.honest.n - 1}")
        return view.honest.columns[target]


def _follow(view: AttackView, warmup: int) -> Crafted:
    """The update of the client to copy, and the memory: mean, direction and client so far."""
    memory, honest, place = dict(view.memory), view.honest.columns.double(), view.honest.place
    t = int(memory["rounds"]) if memory else 0
    if t < warmup:
        mean = honest.mean(dim=0)
        if not memory:
            drawn = view.rng.standard_normal(view.honest.d)
            memory = {"mu": mean, "z": place.share(torch.from_numpy(np.asarray(drawn))).to(mean)}
        mu = (t * memory["mu"] + mean) / (t + 1)
        away = honest - mu
        found = place.unit(place.sum(away @ memory["z"]) @ away)
        memory |= {"mu": mu, "z": place.unit(t * memory["z"] + found), "rounds": torch.tensor(t + 1)}
    along = place.sum(honest @ memory["z"])
    if t < warmup:
        memory["client"] = view.clients[int(along.argmax())]
    there = (view.clients == int(memory["client"])).nonzero()
    return Crafted(view.honest.columns[int(there[0]) if len(there) else int(along.argmax())], memory)


def most_skewed(label_counts: Tensor) -> int:
    """Row of ``label_counts`` (h, c) whose distribution is farthest from uniform; in a tie, the first."""
    counts = label_counts.cpu().numpy().astype(np.float64)
    # Up to a constant the squared distance is sum(p^2). Computed from integers it is rounded once, so ties stay ties.
    skew = np.vecdot(counts, counts) / counts.sum(axis=1).clip(min=1) ** 2
    return int(skew.argmax())
