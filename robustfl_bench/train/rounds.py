"""A round of all models, as the protocol of the run makes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.clustering.base import StartView
from robustfl_bench.parts.protocols.base import Engine
from robustfl_bench.parts.protocols.state import Cohort, Memory, ModelState, Remembered, Round, State, Trained
from robustfl_bench.train.context import Context
from robustfl_bench.train.contract import protocol_fault
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.foresight import Foresight


def initial_state(federation: Federation) -> State:
    """The state before the first round."""
    clustering, clusters = federation.parts.clustering, federation.clients.clusters
    if clustering is None:
        return State.start(federation.network.initial[None])
    if clusters is not None:
        clusters = np.where(np.isin(np.arange(len(clusters)), federation.clients.honest_ids), clusters, -1)
    view = StartView(
        seed=federation.settings.seed,
        rng=seeding.generator,
        initial=federation.network.another_initial,
        truth=federation.clients.data.truth,
        clients=federation.samples,
        clusters=clusters,
        module=federation.network.module,
    )
    return State.start(*clustering.start(view))


def step(federation: Federation, state: State) -> tuple[State, Round]:
    """The state after the next round, and the results of that round."""
    if federation.parts.attack.plans and len(federation.clients.byzantine_ids):
        planned = federation.parts.attack.plan(Foresight(federation, state, step))
        assert isinstance(planned, Federation)
        federation = planned
    course, nothing = federation.parts.course, state.params[:0]
    return federation.contract.call(
        "protocol",
        course,
        nothing,
        lambda: course.step(Rounds(federation), state),
        lambda returned: protocol_fault(returned, state),
    )


class Rounds(Engine):
    """The rounds of a federation, as the base class describes them."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.honest_ids, self.byzantine_ids = federation.clients.honest_ids, federation.clients.byzantine_ids
        self.clients_per_round = federation.settings.clients_per_round

    def draw(self, name: str, round: int, numbers: Callable[[int, np.random.Generator], np.ndarray]) -> np.ndarray:
        return self._federation.cohorts.draw(name, round, numbers)

    def ids(self, cohort: Cohort) -> np.ndarray:
        return self._federation.cohorts.ids(cohort)

    def cohort(self, ids: np.ndarray) -> Cohort:
        return self._federation.cohorts.made_of(ids)

    def cohorts(self, state: State) -> tuple[Cohort, ...]:
        return self._federation.cohorts.of(state)

    def context(
        self, state: State, cohorts: Sequence[Cohort], number: int = 0, received: Mapping[int, ModelState] | None = None
    ) -> Context:
        federation, clients = self._federation, sum(map(len, cohorts))
        return Context(federation, cohorts[number], state.model(number), self._lr(state), clients, received or {})

    def after(
        self,
        state: State,
        cohorts: Sequence[Cohort],
        models: Sequence[Trained],
        protocol: Remembered | None = None,
        notes: Mapping[str, float] = MappingProxyType({}),
    ) -> tuple[State, Round]:
        apart = self._federation.storage.apart

        def lasting(memory: Memory) -> Memory:
            return replace(memory, rule=apart(memory.rule), attack=apart(memory.attack))

        after = replace(
            state,
            round=state.round + 1,
            params=torch.stack([model.params for model in models]),
            previous=self._last_aggregates(state, models),
            memory=tuple(lasting(model.memory) for model in models),
            weights=self._client_weights(cohorts, models),
            protocol=apart(protocol or {}),
        )
        return after, Round(after.round, self._lr(state), tuple(cohorts), tuple(models), notes)

    def _lr(self, state: State) -> float:
        return self._federation.parts.schedule(self._federation.settings.lr, state.round)

    def _last_aggregates(self, state: State, models: Sequence[Trained]) -> Tensor | None:
        """The aggregates (k, d) of this round; for a model that did not change, the previous one, or zeros.

        Raises ConfigError if no model was trained, unless clients can drop out.
        """
        made = [model.aggregate for model in models]
        vectors = [None if each is None or each.skipped else each.vector for each in made]
        if all(vector is None for vector in vectors):
            if self._federation.parts.availability is not None or any(each is not None for each in made):
                return state.previous
            raise ConfigError("every cohort of clients is too small for the rule; take fewer clusters, or a lower f")
        before = torch.zeros_like(state.params) if state.previous is None else state.previous
        return torch.stack([old if vector is None else vector for vector, old in zip(vectors, before, strict=True)])

    def _client_weights(self, cohorts: Sequence[Cohort], models: Sequence[Trained]) -> Tensor | None:
        """The weight of every client (N,) float64, nan for clients that did not take part; None for several models or a
        rule without weights."""
        if len(models) > 1 or models[0].aggregate is None or models[0].aggregate.weights is None:
            return None
        weights = torch.full((self._federation.settings.total_clients,), torch.nan, dtype=torch.float64)
        weights[self.ids(cohorts[0])] = models[0].aggregate.weights.cpu()
        return weights
