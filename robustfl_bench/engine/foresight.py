"""What attackers who plan foresee: whole trainings, simulated from the state at hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.attacks.base import Attack, PlanView
from robustfl_bench.base import seeding
from robustfl_bench.base.errors import Diverged
from robustfl_bench.engine.federation import Federation
from robustfl_bench.protocols.state import Memory, Round, State

ASSESSED = 2048
"""The largest number of samples on which attackers assess the models of a simulation."""

Step = Callable[[Federation, State], tuple[State, Round]]
Known = Callable[[], tuple[Tensor, Tensor]]


def in_force(federation: Federation, state: State, step: Step) -> Federation:
    """The federation under the attack that its attackers plan for the next round; ``step`` simulates a round."""
    attack = federation.parts.attack
    if not attack.plans or not len(federation.byzantine_ids):
        return federation
    view = PlanView(
        round=state.round,
        rounds=federation.settings.rounds,
        memory=state.memory[0].attack,
        varies=_varies(federation),
        simulate=partial(_harm, federation, state, step, cache(partial(_known, federation))),
    )
    return federation.under(attack.plan(view))


def _varies(federation: Federation) -> bool:
    s, parts = federation.settings, federation.parts
    drawn = s.batch_size is not None or s.clients_per_round < s.total_clients or federation.network.stochastic
    return drawn or any(part is not None for part in (parts.availability, parts.augmentation, parts.pre_aggregation))


def _known(federation: Federation) -> tuple[Tensor, Tensor]:
    """Unpoisoned samples (x, y) of the clients whose data the attackers know, evenly spaced over all of them."""
    ids = federation.byzantine_ids
    if federation.settings.knowledge != "own":
        ids = np.arange(federation.settings.num_clients)
    return federation.unpoisoned(ids).thinned(range(len(ids)), ASSESSED)


def _harm(
    federation: Federation, state: State, step: Step, known: Known, attack: Attack, stream: int
) -> tuple[float, float]:
    """The harm of a training to the end, as ``PlanView.simulate`` returns it."""
    s, models = federation.settings, list[Tensor]()
    imagined = federation.under(attack, seeding.integer(s.seed, "simulation", state.round, stream))
    state = replace(state, memory=tuple(_copied(memory) for memory in state.memory))
    try:
        while state.round < s.rounds:
            state, _ = step(imagined, state)
            if s.is_evaluated(state.round) and 3 * state.round > 2 * s.rounds:
                models.append(state.params[0])
        losses, errors = federation.network.assess(torch.stack(models), *known())
    except Diverged:
        losses, errors = torch.full((1,), torch.nan), None
    if not losses.isfinite().all():
        return (0.0 if federation.network.regression else 1 - 1 / federation.num_classes), math.inf
    return (0.0 if errors is None else float(errors.mean())), float(losses.mean())


def _copied(memory: Memory) -> Memory:
    """The memory with a copy of what rounds change in place."""
    return replace(memory, local={who: {name: value.clone() for name, value in kept.items()}
                                  for who, kept in memory.local.items()})  # fmt: skip
