"""What attackers who plan foresee: whole trainings, simulated from the state at hand."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.attacks.base import Attack, Harm, PlanView
from robustfl_bench.base import seeding
from robustfl_bench.base.errors import Diverged
from robustfl_bench.engine.federation import Federation
from robustfl_bench.protocols.state import Memory, Round, State

ASSESSED = 2048
"""The largest number of samples on which attackers assess the models of a simulation."""


@dataclass(frozen=True)
class Foresight(PlanView):
    """The attackers' view before the round after ``state``; ``step`` makes a round.

    Only attacks that plan mention its methods, so a change of these counts in no other run's code digest.
    """

    federation: Federation
    state: State
    step: Callable[[Federation, State], tuple[State, Round]]

    @property
    def round(self) -> int:
        return self.state.round

    @property
    def rounds(self) -> int:
        return self.federation.settings.rounds

    @property
    def memory(self) -> dict[str, Tensor]:
        return self.state.memory[0].attack

    @property
    def varies(self) -> bool:
        s, parts = self.federation.settings, self.federation.parts
        drawn = s.batch_size is not None or s.clients_per_round < s.total_clients or self.federation.network.stochastic
        return drawn or any(
            part is not None for part in (parts.availability, parts.augmentation, parts.pre_aggregation)
        )

    def simulate(self, attack: Attack, stream: int) -> Harm:
        federation, state, models = self.federation, self.state, list[Tensor]()
        s = federation.settings
        imagined = federation.under(attack, seeding.integer(s.seed, "simulation", state.round, stream))
        state = replace(state, memory=tuple(_copied(memory) for memory in state.memory))
        try:
            while state.round < s.rounds:
                state, _ = self.step(imagined, state)
                if s.is_evaluated(state.round) and 3 * state.round > 2 * s.rounds:
                    models.append(state.params[0])
            losses, errors = federation.network.assess(torch.stack(models), *self._known)
        except Diverged:
            losses, errors = torch.full((1,), torch.nan), None
        if not losses.isfinite().all():
            return (0.0 if federation.network.regression else 1 - 1 / federation.num_classes), math.inf
        return (0.0 if errors is None else float(errors.mean())), float(losses.mean())

    def carry_out(self, attack: Attack) -> Federation:
        return self.federation.under(attack)

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """Unpoisoned samples (x, y) of the clients whose data the attackers know, evenly spaced over all of them."""
        ids = self.federation.byzantine_ids
        if self.federation.settings.knowledge != "own":
            ids = np.arange(self.federation.settings.num_clients)
        return self.federation.unpoisoned(ids).thinned(range(len(ids)), ASSESSED)


def _copied(memory: Memory) -> Memory:
    """The memory with a copy of what rounds change in place."""
    return replace(memory, local={who: {name: value.clone() for name, value in kept.items()}
                                  for who, kept in memory.local.items()})  # fmt: skip
