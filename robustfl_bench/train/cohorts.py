"""The clients that take part in a round, and the model that each of them trains."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import BrokenContract
from robustfl_bench.base.read_only import called
from robustfl_bench.parts.protocols.state import Cohort, State
from robustfl_bench.train import participation
from robustfl_bench.train.model_choice import Choice

if TYPE_CHECKING:
    from robustfl_bench.train.federation import Federation


class Cohorts:
    """Forms the cohorts of every round."""

    def __init__(self, federation: Federation) -> None:
        self._federation, self._clients = federation, federation.clients
        self._arrived: list[int] = []

    def present(self, round: int) -> Cohort:
        """The clients whose updates arrive in a round: the participating ones that do not drop out.

        Empty if no honest client is left; such a round is skipped.
        """
        chosen, work = self._taking_part(round), self.work(round)
        if work is None:
            return chosen
        clients = self._clients
        honest = [i for i in chosen.honest if work[clients.honest_ids[i]]]
        byzantine = [i for i in chosen.byzantine if work[clients.byzantine_ids[i]]]
        return Cohort(honest, byzantine if honest else [])

    def work(self, round: int) -> np.ndarray | None:
        """The share of its local work that every client does in a round, (N,); None if all do all of it.

        ``participation.draw`` says on what the shares depend.
        """
        availability = self._federation.parts.availability
        if availability is None:
            return None

        def shares(n: int, rng: np.random.Generator) -> np.ndarray:
            drawn = availability(n, rng)
            fine = isinstance(drawn, np.ndarray) and drawn.shape == (n,) and bool(((drawn >= 0) & (drawn <= 1)).all())
            if not fine:
                raise BrokenContract(f"{called(availability)} must return an array ({n},) of shares in [0, 1]")
            return drawn

        work = self.draw("availability", round, shares)
        if not availability.byzantine:
            work[self._clients.byzantine_ids] = 1
        return work

    def draw(self, name: str, round: int, numbers: Callable[[int, np.random.Generator], np.ndarray]) -> np.ndarray:
        """One number per client, (N,), from ``numbers`` (how many, generator), for a round; see ``participation``."""
        return participation.draw(self._federation.settings, name, round, numbers)

    def arrivals(self, rounds: int) -> list[int]:
        """The number of updates that arrive in each of the first ``rounds`` rounds."""
        if self._federation.parts.availability is None:
            return [self._federation.storage.number] * rounds
        while len(self._arrived) < rounds:
            self._arrived.append(len(self.present(len(self._arrived))))
        return self._arrived[:rounds]

    def _taking_part(self, round: int) -> Cohort:
        """The clients that take part in a round."""
        clients, s = self._clients, self._federation.settings
        if s.clients_per_round >= s.total_clients:
            return Cohort(list(range(len(clients.honest_ids))), list(range(len(clients.byzantine_ids))))
        return self.made_of(participation.taking_part(s, round, clients.byzantine_ids))

    def of(self, state: State) -> tuple[Cohort, ...]:
        """The cohort of each model in the round after ``state``."""
        present, clustering = self.present(state.round), self._federation.parts.clustering
        if clustering is None:
            return (present,)
        if not len(present):
            return (present,) * len(state.params)
        if state.choice is not None:
            choice = state.choice.cpu()[self.ids(present)]
        else:
            rng = seeding.generator(self._federation.settings.seed, "models that nobody chose", state.round)
            choice = clustering.fill(self._choice(present, state.params, state.round + 1).cpu(), rng)
        who = np.array([*present.honest, *present.byzantine])
        honest = np.arange(len(who)) < len(present.honest)
        mine = [choice.numpy() == model for model in range(len(state.params))]
        return tuple(Cohort(who[m & honest].tolist(), who[m & ~honest].tolist()) for m in mine)

    def ids(self, cohort: Cohort) -> np.ndarray:
        """The numbers of a cohort's clients, (n,), honest clients first."""
        clients = self._clients
        return np.concatenate([clients.honest_ids[cohort.honest], clients.byzantine_ids[cohort.byzantine]])

    def made_of(self, ids: np.ndarray) -> Cohort:
        """The cohort of the clients with these numbers."""
        clients = self._clients
        honest, byzantine = (np.flatnonzero(np.isin(all_ids, ids)).tolist()
                             for all_ids in (clients.honest_ids, clients.byzantine_ids))  # fmt: skip
        return Cohort(honest, byzantine)

    @cached_property
    def _choice(self) -> Choice:
        return Choice(self._federation)
