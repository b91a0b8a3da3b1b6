"""Clients that drop out of rounds, and stragglers that do less work than the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, between
from robustfl_bench.parts.availability.base import Availability

if TYPE_CHECKING:
    from robustfl_bench.parts.local_updates.base import LocalUpdate


@dataclass(frozen=True)
class Unreliable(Availability):
    """A client drops out of a round with probability ``dropout``, and otherwise straggles with probability
    ``stragglers``.

    Clients and rounds are independent. A client that drops out does nothing in that round. A straggler makes a
    uniformly drawn number of its local steps or passes, from one to all, and its update counts in full (FedProx, Li et
    al., MLSys 2020, section 5.2, https://arxiv.org/abs/1812.06127; FedAvg drops stragglers in that experiment:
    ``dropout``). Updates that arrive rounds later, as in asynchronous learning, are not modelled, because every
    checkpoint would have to store the late updates.

    If too few updates arrive for the rule, or no update of an honest client, the round leaves the model unchanged (the
    column ``skipped`` of ``metrics.csv``).
    """

    dropout: Annotated[float, between(0, 1)] = 0.1
    """probability that a participating client delivers nothing"""
    stragglers: Annotated[float, between(0, 1)] = 0.0
    """probability that a delivering client makes fewer local steps, uniform from one to all"""
    byzantine: Flag = False
    """true: Byzantine clients drop out and straggle too; false: they never do, the worst case"""

    def __post_init__(self) -> None:
        if self.dropout == 1:
            raise ConfigError("dropout must be < 1, got 1: no update would ever arrive")

    def check(self, local_update: LocalUpdate) -> None:
        """Raise ConfigError for stragglers among clients with a single local step, which cannot be left out."""
        if self.stragglers and local_update.repeats < 2:
            raise ConfigError(
                f"stragglers make fewer local steps, but local_update {type(local_update).__name__} has one in a"
                " round; take local_update=fedavg or local_sgd with several, or availability.stragglers=0"
            )

    def __call__(self, num_clients: int, rng: np.random.Generator) -> np.ndarray:
        """The share of its local work that each client does and delivers, (num_clients,) in [0, 1]."""
        # All numbers are drawn in any case, so that dropouts do not depend on ``stragglers``.
        arrive, straggle, work = rng.random(num_clients), rng.random(num_clients), 1 - rng.random(num_clients)
        return np.where(arrive < self.dropout, 0.0, np.where(straggle < self.stragglers, work, 1.0))
