"""An attack that starts late, ends early, or pauses (ours)."""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.parts.attacks.wrapped import Wrapped


@dataclass(frozen=True)
class Scheduled(Wrapped):
    """The attackers apply ``attack`` in rounds ``first`` to ``last`` (null: the end), counted from 1.

    Within these rounds they attack for ``burst`` rounds, pause for ``pause`` rounds, and so on. In all other rounds
    they are honest: they train on their own unpoisoned samples, report true losses and choose models as honest clients
    do. Added clients hold no samples and send the mean of the honest updates, which hardly changes most aggregates.
    The attack keeps its memory until its next round. A single round (``last`` equal to ``first``) around
    ``model_replacement`` is the single-shot attack of Bagdasaryan et al. (AISTATS 2020).
    """

    first: Annotated[int, at_least(1)] = 1
    """the first round of the attack, from 1"""
    last: Annotated[int | None, at_least(1)] = None
    """the last round of the attack; null: the last of the run"""
    burst: Annotated[int, at_least(1)] = 1
    """rounds of attack in a row"""
    pause: Annotated[int, at_least(0)] = 0
    """honest rounds between two bursts; 0: none"""

    def __post_init__(self) -> None:
        if self.last is not None and self.last < self.first:
            raise ConfigError(f"last must be null or >= first={self.first}, got {self.last}")

    def active(self, round: int) -> bool:
        late = self.last is not None and round > self.last
        if round < self.first or late or not self.attack.active(round):
            return False
        return (round - self.first) % (self.burst + self.pause) < self.burst
