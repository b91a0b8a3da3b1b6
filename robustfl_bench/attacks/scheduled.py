"""An attack that starts late, ends early, or pauses (ours)."""

import math
from dataclasses import dataclass

from robustfl_bench.attacks.wrapped import Wrapped
from robustfl_bench.base.errors import ConfigError, check_fields


@dataclass(frozen=True)
class Scheduled(Wrapped):
    """The attackers apply ``attack`` in rounds ``first`` to ``last`` (null: the end), counted from 1.

    Within these rounds they attack for ``burst`` rounds, pause for ``pause`` rounds, and so on. In all other rounds
    they are honest: they train on their own unpoisoned samples, report true losses and choose models as honest clients
    do. Added clients hold no samples and send the mean of the honest updates, which hardly changes most aggregates.
    The attack keeps its memory until its next round. A single round (``last`` equal to ``first``) around
    ``model_replacement`` is the single-shot attack of Bagdasaryan et al. (AISTATS 2020).
    """

    first: int = 1
    last: int | None = None
    burst: int = 1
    pause: int = 0

    def __post_init__(self) -> None:
        check_fields(self, first=(1, math.inf), last=(1, math.inf), burst=(1, math.inf), pause=(0, math.inf))
        if self.last is not None and self.last < self.first:
            raise ConfigError(f"last must be null or >= first={self.first}, got {self.last}")

    def active(self, round: int) -> bool:
        late = self.last is not None and round > self.last
        if round < self.first or late or not self.attack.active(round):
            return False
        return (round - self.first) % (self.burst + self.pause) < self.burst
