"""Clients that drop out of rounds, and stragglers that do less work than the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robustfl_bench.interfaces import Availability, ConfigError, check_fields, check_flags

if TYPE_CHECKING:
    from robustfl_bench.config.parts import Parts


@dataclass(frozen=True)
class Unreliable(Availability):
    """A client drops out of a round with probability ``dropout``; one that does not straggles with ``stragglers``.

    Clients and rounds are independent. A client that drops out does nothing in that round. A straggler makes a number
    of its local steps or passes that is uniform from one to all, and its update counts in full (FedProx, Li et al.,
    MLSys 2020, section 5.2, https://arxiv.org/abs/1812.06127; FedAvg leaves stragglers out there, which is
    ``dropout``). An update that arrives rounds later, as in asynchronous learning, is not modelled: every checkpoint
    would hold the late updates.

    A round that too few updates reach for the rule, or none of an honest client, leaves the model as it is (the column
    ``skipped`` of ``metrics.csv``).

    Byzantine clients deliver everything in every round, the worst case, unless ``byzantine``.
    """

    dropout: float = 0.1
    stragglers: float = 0.0
    byzantine: bool = False

    def __post_init__(self) -> None:
        check_fields(self, dropout=(0, 1), stragglers=(0, 1))
        check_flags(self, "byzantine")
        if self.dropout == 1:
            raise ConfigError("dropout must be < 1, got 1: no update would ever arrive")

    def check(self, parts: Parts) -> None:
        """Raise ConfigError for stragglers among clients with a single step, of which nothing can be left out."""
        if self.stragglers and parts.local_update.repeats < 2:
            raise ConfigError(
                f"stragglers make fewer local steps, but local_update {type(parts.local_update).__name__} has one in a"
                " round; take local_update=fedavg or local_sgd with several, or availability.stragglers=0"
            )

    def __call__(self, num_clients: int, rng: np.random.Generator) -> np.ndarray:
        """The share of its local work that every client does and delivers, (num_clients,) in [0, 1]."""
        # All is drawn in any case, so that who drops out does not depend on the stragglers.
        arrive, straggle, work = rng.random(num_clients), rng.random(num_clients), 1 - rng.random(num_clients)
        return np.where(arrive < self.dropout, 0.0, np.where(straggle < self.stragglers, work, 1.0))
