"""The round of one model: local updates, attack, pre-aggregation, aggregation and the server's step.

This module refers to no specific rule, attack or data set and uses no configuration, disk or clock. A diverged model
raises Diverged, a part that breaks its contract raises BrokenContract.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import BrokenContract, ConfigError, Diverged
from robustfl_bench.base.read_only import called
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates, all_finite
from robustfl_bench.parts.aggregators.base import ServerView
from robustfl_bench.parts.attacks.base import AttackView, Crafted
from robustfl_bench.parts.protocols.base import RoundContext, Rule
from robustfl_bench.parts.protocols.state import Cohort, ModelState, Remembered, Trained
from robustfl_bench.train import contract as checks
from robustfl_bench.train import sight
from robustfl_bench.train.federation import Federation


@dataclass(frozen=True)
class Context(RoundContext):
    """A round of one model in a federation, as its base class describes it.

    ``clients`` is the number of clients of the round, whichever model they train. ``received`` has the models from
    which clients start, by their numbers, where these are not ``model``.
    """

    federation: Federation
    cohort: Cohort
    model: ModelState
    lr: float
    clients: int
    received: Mapping[int, ModelState] = field(default_factory=dict)

    def train(self) -> Updates:
        federation, honest = self.federation, self.cohort.honest
        ids, buffer = federation.clients.honest_ids[honest].tolist(), federation.storage.buffer[: len(honest)]
        return self.train_clients(federation.honest, honest, ids, "honest", buffer)

    def train_nodes(self, models: Tensor) -> Updates:
        federation, round, honest = self.federation, self.model.round, self.cohort.honest
        ids, s, buffer = federation.clients.honest_ids[honest].tolist(), federation.settings, federation.storage.buffer
        if federation.storage.stacks and federation.parts.local_update.sends_a_gradient:
            drawn = (federation.honest, honest, ids, s.seed, "batches", round, s.batch_size)
            samples = Samples(*drawn, augmentation=federation.parts.augmentation)
            known = federation.own_models.gradients(federation.network, models, samples, buffer[: len(honest)])
            if known is not None:
                federation.prepared.gradients = (known,)
                return replace(self, model=replace(self.model, params=models)).train()
        federation.prepared.gradients = ()
        received = {i: replace(self.model, params=own) for i, own in zip(ids, models, strict=True)}
        return replace(self, received=received).train()

    def train_clients(
        self, population: Population, clients: list[int], ids: list[int], name: str, out: Tensor, whose: str = ""
    ) -> Updates:
        """The updates of clients of a population, in the rows of ``out`` (n, d), from the models that they received.

        ``name`` is that of their part of the memory of the local updates, ``whose`` that of clients only supposed.
        """
        federation, memory = self.federation, self.model.memory.local.setdefault(name, {})
        work = federation.cohorts.work(self.model.round)
        starts = [self.received.get(i, self.model) for i in ids]
        different = {id(start): start for start in starts} or {id(self.model): self.model}
        if len(different) == 1:
            (start,) = different.values()
            return federation.train(population, clients, ids, "batches", start, out, memory, work, whose)
        counts, losses = (out.new_empty(len(ids), dtype=torch.float64) for _ in range(2))
        for start in different.values():
            rows = [row for row, other in enumerate(starts) if other is start]
            chosen, named = ([every[row] for row in rows] for every in (clients, ids))
            buffer = federation.storage.rows(len(rows))
            part = federation.train(population, chosen, named, "batches", start, buffer, memory, work, whose)
            assert part.losses is not None
            out[rows], counts[rows], losses[rows] = part.matrix, part.counts, part.losses
        return Updates(out, counts, losses)

    def receive(self, uploads: Tensor) -> int:
        self.federation.parts.course.deliver(uploads)
        return checks.zero_non_finite(uploads)

    def attack(self, honest: Updates, rule: Rule) -> tuple[Updates, Crafted]:
        federation, attackers = self.federation, self.cohort.byzantine
        attack = federation.parts.attack
        if not attackers:
            return honest, Crafted(honest.columns[:0], self.model.memory.attack)
        if not attack.active(self.model.round + 1):
            rows = sight.without_attack(self, honest)
            return self._appended(honest, rows), Crafted(rows, self.model.memory.attack)

        def joined(crafted: Tensor) -> Updates:
            return self._appended(honest, self._sent(crafted).expand(len(attackers), -1))

        def questions(crafted: Tensor) -> Questions:
            counts = torch.cat([honest.counts, federation.counts[self._byzantine_ids]])
            return Questions(honest, self._sent(crafted), counts, federation.storage.buffer[: len(self.cohort)])

        view = self._attack_view(honest, rule, questions)
        if federation.settings.knowledge == "own":
            view = sight.of_their_own(self, view, rule)
        elif not honest.n and attack.needs_honest:
            return joined(view.own), Crafted(view.own, self.model.memory.attack)
        returned = federation.contract.call(
            "attack",
            attack,
            honest.columns,
            lambda: attack.craft(view),
            lambda crafted: checks.crafted_fault(crafted, len(attackers), honest.columns),
        )
        crafted = returned if isinstance(returned, Crafted) else Crafted(returned)
        return joined(crafted.rows), crafted

    def aggregate(self, updates: Updates) -> Aggregate:
        parts, contract, prepared = self.federation.parts, self.federation.contract, updates
        if (preparation := parts.pre_aggregation) is not None:
            stream = seeding.generator(self.federation.settings.seed, "pre-aggregation", self.model.round)
            prepared = contract.call(
                "pre-aggregation",
                preparation,
                updates.columns,
                lambda: preparation(updates, stream),
                lambda mixed: checks.mixed_fault(mixed, updates),
            )
        try:
            return contract.call(
                "aggregator",
                parts.aggregator,
                updates.columns,
                lambda: parts.course.aggregate(parts.aggregator, prepared, self._server_view()),
                lambda made: checks.aggregate_fault(made, updates),
            )
        except (ConfigError, BrokenContract, Diverged):
            raise
        except (ArithmeticError, ValueError, RuntimeError) as error:  # for example from linear algebra
            if (largest := checks.largest_of(updates)) < checks.HUGE:
                raise
            reason = f"{called(parts.aggregator)} failed with updates of up to {largest:.0e} ({error})"
            raise Diverged(self.model.round + 1, reason) from error

    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor | None:
        return sight.aggregate_nodes(self, nodes)

    def craft_messages(self, known: Mapping[str, Tensor]) -> Crafted | None:
        return sight.craft_messages(self, known)

    @property
    def pace(self) -> float:
        return self.federation.parts.local_update.step_size(self.lr)

    def server_step(self, vector: Tensor) -> tuple[Tensor, Remembered]:
        parts, clustering = self.federation.parts, self.federation.parts.clustering
        step_size = parts.local_update.step_size(self.lr)
        if clustering is not None:
            step_size *= clustering.step_scale(len(self.cohort) / self.clients)
        memory = MappingProxyType(self.model.memory.server)
        params, remembered = parts.server_optimizer(self.model.params, vector, step_size, memory)
        params = params if clustering is None else clustering.project(params)
        return params, self.federation.storage.apart(remembered)

    def complete(self, rule: Rule | None = None) -> Trained:
        rule, model = rule or self.aggregate, self.model
        honest = self.train()
        non_finite = self.receive(honest.columns)
        checks.require_some_finite(honest.n, non_finite, model.round)
        if not self.federation.is_enough(len(self.cohort)):  # the model does not change
            return Trained(model.params, honest.losses, None, honest.n, non_finite, model.memory)
        updates, attack = self.attack(honest, rule)
        non_finite += self.receive(updates.columns[honest.n :])
        aggregate = rule(updates)
        if not all_finite(aggregate.vector):
            raise checks.non_finite_aggregate(self.federation.parts.aggregator, updates, model.round + 1)
        if aggregate.skipped:
            params, server = model.params, model.memory.server
        else:
            params, server = self.server_step(aggregate.vector)
        checks.require_finite(params, model.round, "the model has parameters that are not finite")
        memory = replace(model.memory, rule=dict(aggregate.memory or {}), attack=dict(attack.memory), server=server)
        return Trained(params, honest.losses, aggregate, honest.n, non_finite, memory, attack.notes)

    @property
    def _byzantine_ids(self) -> list[int]:
        ids: list[int] = self.federation.clients.byzantine_ids[self.cohort.byzantine].tolist()
        return ids

    def _sent(self, rows: Tensor) -> Tensor:
        """The uploads for updates, and, because this map is its own inverse, the updates for uploads."""
        return self.model.params - rows if self.federation.parts.local_update.sends_models else rows

    def _appended(self, honest: Updates, rows: Tensor) -> Updates:
        """The honest updates followed by the Byzantine clients' ``rows``."""
        buffer = self.federation.storage.buffer[: len(self.cohort)]
        return honest.append(rows, self.federation.counts[self._byzantine_ids], buffer)

    def _attack_view(self, honest: Updates, rule: Rule, questions: Callable[[Tensor], Questions]) -> AttackView:
        return sight.of_attackers(self, honest, rule, questions)

    @cached_property
    def _server_view(self) -> Callable[[], ServerView]:
        return sight.of_server(self)
