"""What attackers who plan foresee: whole trainings, simulated from the state at hand."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError, Diverged
from robustfl_bench.parts.attacks.base import Attack, Harm, PlanView
from robustfl_bench.parts.protocols.state import Memory, Round, State
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.stack import Stack, at_once, can_be_stacked
from robustfl_bench.train.views import Blind, Relabelled, UnderAttack

ASSESSED = 2048
"""The largest number of samples on which attackers assess the models of a simulation."""


def under(real: Federation, attack: Attack, seed: int | None = None) -> Federation:
    """The ``real`` federation under another attack.

    With a ``seed`` it is a simulation by the attackers: the clients, their samples and the server's are the same, but
    all random streams are others. With ``knowledge=own``, honest clients then have samples of the attackers'.
    """
    settings = real.settings if seed is None else replace(real.settings, seed=seed)
    view = Blind() if seed is not None and settings.knowledge == "own" else UnderAttack()
    return replace(real, settings=settings, parts=replace(real.parts, attack=attack), view=view)


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

    @property
    def supposes(self) -> bool:
        return self.federation.settings.knowledge == "own"

    @property
    def error_at_hand(self) -> float:
        _, errors = self.federation.network.assess(self.state.params[:1], *self._known)
        return 0.0 if errors is None else float(errors[0])

    @property
    def own_draws(self) -> Callable[[int], np.random.Generator]:
        return partial(seeding.generator, self.federation.settings.seed, "attack")

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        return tuple(shape.numel() for _, shape in self.federation.network.slots.values())

    def simulate(self, attacks: Sequence[Attack], stream: int) -> list[Harm | None]:
        s, parts = self.federation.settings, self.federation.parts
        seed = seeding.integer(s.seed, "simulation", self.state.round, stream)
        number = 1
        if can_be_stacked(parts):
            number = at_once(self.federation.storage.number * self.federation.network.dim)
        found = list[Harm | None]()
        for first in range(0, len(attacks), number):
            found += self._to_the_end([self._imagined(attack, seed) for attack in attacks[first : first + number]])
        return found

    def assess_by_class(self, models: Tensor) -> tuple[Tensor, Tensor | None]:
        network, (x, y) = self.federation.network, self._known
        if network.regression:
            return network.assess(models, x, y)
        losses, errors = zip(
            *(network.assess(models, x[y == label], y[y == label]) for label in y.unique()), strict=True
        )
        return torch.stack(losses).mean(dim=0), torch.stack(errors).mean(dim=0)

    def carry_out(self, attack: Attack) -> Federation:
        return under(self.federation, attack)

    def carry_out_on_labels(self, attack: Attack, choose: Callable[[Tensor], Tensor]) -> Federation:
        view = Relabelled(self.state.params[0], choose)
        return replace(under(self.federation, attack), view=view)

    def _imagined(self, attack: Attack, seed: int) -> "_Simulation":
        state = replace(self.state, memory=tuple(_copied(memory, self.supposes) for memory in self.state.memory))
        return _Simulation(under(self.federation, attack, seed), state)

    def _to_the_end(self, simulations: Sequence["_Simulation"]) -> list[Harm | None]:
        """The harms of simulations whose rounds go in step, with gradients computed for all of them at once."""
        stack, running = Stack(), list(simulations)
        while running := [simulation for simulation in running if simulation.goes_on]:
            if len(simulations) > 1:
                stack.prepare([(simulation.federation, simulation.state) for simulation in running])
            for simulation in running:
                simulation.make_round(self.step)
        return [self._harm(simulation) for simulation in simulations]

    def _harm(self, simulation: "_Simulation") -> Harm | None:
        if isinstance(simulation.error, ConfigError):
            return None
        network, losses, errors = self.federation.network, torch.full((1,), torch.nan), None
        if simulation.error is None:
            losses, errors = network.assess(torch.stack(simulation.models), *self._known)
        if not losses.isfinite().all():
            return (0.0 if network.regression else 1 - 1 / self.federation.clients.num_classes), math.inf
        return (0.0 if errors is None else float(errors.mean())), float(losses.mean())

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """Unpoisoned samples (x, y) of the clients whose data the attackers know, evenly spaced over all of them."""
        ids = self.federation.clients.byzantine_ids
        if not self.supposes:
            ids = np.arange(self.federation.settings.num_clients)
        return self.federation.clients.unpoisoned(ids).thinned(range(len(ids)), ASSESSED)


@dataclass
class _Simulation:
    """A training to the end; ``models`` are those that the attackers will assess."""

    federation: Federation
    state: State
    models: list[Tensor] = field(default_factory=list)
    error: Exception | None = None

    @property
    def goes_on(self) -> bool:
        """Whether there is another round to make."""
        return self.error is None and self.state.round < self.federation.settings.rounds

    def make_round(self, step: Callable[[Federation, State], tuple[State, Round]]) -> None:
        """Make a round, unless the model diverges or the attack cannot work."""
        s = self.federation.settings
        try:
            self.state, _ = step(self.federation, self.state)
        except (Diverged, ConfigError) as error:
            self.error = error
            return
        if s.is_evaluated(self.state.round) and 3 * self.state.round > 2 * s.rounds:
            self.models.append(self.state.params[0])


def _copied(memory: Memory, supposed: bool) -> Memory:
    """The memory with a copy of what rounds change in place. Clients who are ``supposed`` remember what those remember
    about whom the attackers asked, not what the honest ones do."""
    local = {who: {name: value.clone() for name, value in kept.items()} for who, kept in memory.local.items()}
    if supposed:
        local["honest"] = {name: value.clone() for name, value in memory.local.get("asked", {}).items()}
    return replace(memory, local=local)
