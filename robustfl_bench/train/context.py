"""The round of one model: local updates, attack, pre-aggregation, aggregation and the server's step.

This module refers to no specific rule, attack or data set and uses no configuration, disk or clock. A diverged model
raises Diverged, a part that breaks its contract raises BrokenContract.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from types import MappingProxyType

import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.errors import BrokenContract, ConfigError, Diverged
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.attacks.base import AttackView, Crafted, GossipView
from robustfl_bench.parts.protocols.base import RoundContext, Rule
from robustfl_bench.parts.protocols.state import Cohort, ModelState, Remembered, Trained
from robustfl_bench.train.contract import aggregate_fault, crafted_fault, mixed_fault, nodes_fault, vectors_fault
from robustfl_bench.train.federation import Federation

ASSESSED = 1024
"""The largest number of samples of the honest clients' data on which attackers assess a model."""

HUGE = torch.finfo(torch.float32).max ** 0.5
"""Squares of larger numbers overflow in float32."""


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

    def train_clients(
        self, population: Population, clients: list[int], ids: list[int], name: str, out: Tensor
    ) -> Updates:
        """The updates of clients of a population, in the rows of ``out`` (n, d), from the models that they received.

        ``name`` is that of their part of the memory of the local updates.
        """
        federation, memory = self.federation, self.model.memory.local.setdefault(name, {})
        work = federation.cohorts.work(self.model.round)
        starts = [self.received.get(i, self.model) for i in ids]
        different = {id(start): start for start in starts} or {id(self.model): self.model}
        if len(different) == 1:
            (start,) = different.values()
            return federation.train(population, clients, ids, "batches", start, out, memory, work)
        counts, losses = (out.new_empty(len(ids), dtype=torch.float64) for _ in range(2))
        for start in different.values():
            rows = [row for row, other in enumerate(starts) if other is start]
            chosen, named = ([every[row] for row in rows] for every in (clients, ids))
            buffer = federation.storage.rows(len(rows))
            part = federation.train(population, chosen, named, "batches", start, buffer, memory, work)
            assert part.losses is not None
            out[rows], counts[rows], losses[rows] = part.matrix, part.counts, part.losses
        return Updates(out, counts, losses)

    def receive(self, uploads: Tensor) -> int:
        self.federation.parts.course.deliver(uploads)
        return zero_non_finite(uploads)

    def attack(self, honest: Updates, rule: Rule) -> tuple[Updates, Crafted]:
        federation, attackers = self.federation, self.cohort.byzantine
        attack = federation.parts.attack
        if not attackers:
            return honest, Crafted(honest.columns[:0], self.model.memory.attack)
        if not attack.active(self.model.round + 1):
            rows = self._without_attack(honest)
            return self._appended(honest, rows), Crafted(rows, self.model.memory.attack)

        def joined(crafted: Tensor) -> Updates:
            return self._appended(honest, self._sent(crafted).expand(len(attackers), -1))

        def questions(crafted: Tensor) -> Questions:
            counts = torch.cat([honest.counts, federation.counts[self._byzantine_ids]])
            return Questions(honest, self._sent(crafted), counts, federation.storage.buffer[: len(self.cohort)])

        view = self._attack_view(honest, rule, questions)
        if federation.settings.knowledge == "own":
            view = self._of_their_own(view, rule)
        elif not honest.n and attack.needs_honest:
            return joined(view.own), Crafted(view.own, self.model.memory.attack)
        returned = federation.contract.call(
            "attack",
            attack,
            honest.columns,
            lambda: attack.craft(view),
            lambda crafted: crafted_fault(crafted, len(attackers), honest.columns),
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
                lambda mixed: mixed_fault(mixed, updates),
            )
        try:
            return contract.call(
                "aggregator",
                parts.aggregator,
                updates.columns,
                lambda: parts.course.aggregate(parts.aggregator, prepared, self._server_view()),
                lambda made: aggregate_fault(made, updates),
            )
        except (ConfigError, BrokenContract, Diverged):
            raise
        except (ArithmeticError, ValueError, RuntimeError) as error:  # for example from linear algebra
            if (largest := _largest(updates)) < HUGE:
                raise
            name = type(parts.aggregator).__name__
            reason = f"aggregator {name} failed with updates of up to {largest:.0e} ({error})"
            raise Diverged(self.model.round + 1, reason) from error

    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor | None:
        parts = self.federation.parts
        rule = parts.aggregator
        if parts.pre_aggregation is not None or not overrides(rule, "aggregate_nodes"):
            return None
        return self.federation.contract.call(
            "aggregate_nodes of aggregator",
            rule,
            nodes.messages,
            lambda: rule.aggregate_nodes(nodes),
            lambda made: nodes_fault(made, nodes.own),
        )

    def craft_messages(self, known: Mapping[str, Tensor]) -> Crafted | None:
        federation, number = self.federation, self.model.round
        attack = federation.parts.attack
        if not self.cohort.byzantine or not attack.active(number + 1):
            return None
        view = GossipView(
            **known,
            round=number,
            lr=self.lr,
            rng=seeding.generator(federation.settings.seed, "attack", number),
            memory=MappingProxyType(self.model.memory.attack),
        )
        crafted = federation.contract.call(
            "craft_messages of attack",
            attack,
            view.models,
            lambda: attack.craft_messages(view),
            lambda made: "" if made is None else crafted_fault(made, len(view.links), view.models),
        )
        return Crafted(crafted) if isinstance(crafted, Tensor) else crafted

    @property
    def pace(self) -> float:
        return self.federation.parts.local_update.step_size(self.lr)

    def _answers(self, rule: Rule, questions: Questions) -> Tensor:
        """The vectors (k, d) of the rule for the questions of attackers, at once if nothing but the rule itself is
        asked and all candidates are finite.

        The rule is asked one by one where it fails, so that the question at fault is found.
        """
        parts, contract = self.federation.parts, self.federation.contract
        alone = rule == self.aggregate and parts.pre_aggregation is None and not parts.course.aggregates
        if len(questions) == 1 or not alone or not all(questions.finite):
            return torch.stack([rule(updates).vector for updates in questions])
        aggregator, answers = parts.aggregator, []
        for some in questions.split():
            try:
                vectors = contract.call(
                    "aggregate_many of aggregator",
                    aggregator,
                    some.honest.matrix,
                    partial(aggregator.aggregate_many, some, self._server_view),
                    partial(vectors_fault, questions=some),
                )
            except ConfigError:
                raise
            except (ArithmeticError, ValueError, RuntimeError):  # for example from linear algebra
                vectors = torch.stack([rule(updates).vector for updates in some])
            answers.append(vectors)
        return torch.cat(answers)

    def server_step(self, vector: Tensor) -> tuple[Tensor, Remembered]:
        parts, clustering = self.federation.parts, self.federation.parts.clustering
        step_size = parts.local_update.step_size(self.lr)
        if clustering is not None:
            step_size *= clustering.step_scale(len(self.cohort) / self.clients)
        memory = MappingProxyType(self.model.memory.server)
        params, remembered = parts.server_optimizer(self.model.params, vector, step_size, memory)
        return params if clustering is None else clustering.project(params), dict(remembered)

    def complete(self, rule: Rule | None = None) -> Trained:
        rule, model = rule or self.aggregate, self.model
        honest = self.train()
        non_finite = self.receive(honest.columns)
        require_some_finite(honest.n, non_finite, model.round)
        if not self._enough:
            return Trained(model.params, honest.losses, None, honest.n, non_finite, model.memory)
        updates, attack = self.attack(honest, rule)
        non_finite += self.receive(updates.columns[honest.n :])
        aggregate = rule(updates)
        if not aggregate.vector.isfinite().all():
            raise _non_finite_aggregate(self.federation.parts.aggregator, updates, model.round + 1)
        params, server = self.server_step(aggregate.vector)
        require_finite(params, model.round, "the model has parameters that are not finite")
        memory = replace(model.memory, rule=dict(aggregate.memory or {}), attack=dict(attack.memory), server=server)
        return Trained(params, honest.losses, aggregate, honest.n, non_finite, memory, attack.notes)

    @property
    def _enough(self) -> bool:
        """Whether the rule can work with the cohort; otherwise the model does not change."""
        try:
            if self.cohort:
                self.federation.parts.check_clients(len(self.cohort))
        except ConfigError:
            return False
        return len(self.cohort) > 0

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
        federation = self.federation
        if federation.parts.local_update.sends_models:
            honest = Updates(self._sent(honest.columns), honest.counts, honest.losses, honest.place)
        return AttackView(
            honest=honest,
            clients=torch.from_numpy(federation.clients.honest_ids[self.cohort.honest]),
            n=len(self.cohort),
            num_byzantine=len(self.cohort.byzantine),
            round=self.model.round,
            lr=self.lr,
            params=self.model.params,
            previous=self.model.previous,
            label_counts=federation.label_counts[self.cohort.honest],
            rng=seeding.generator(federation.settings.seed, "attack", self.model.round),
            memory=MappingProxyType(self.model.memory.attack),
            train_own=self._train_byzantine,
            upload=self._sent,
            after=lambda vector: self.server_step(vector)[0],
            assess=self._assessor(federation.honest, self.cohort.honest),
            aggregate=lambda crafted: rule(questions(crafted.reshape(1, -1, crafted.shape[-1]))[0]),
            ask=lambda crafted: self._answers(rule, questions(crafted)),
        )

    def _train_byzantine(self, start: Tensor) -> Tensor:
        """The uploads (b, d) of Byzantine clients that train on their poisoned samples.

        Training from ``model.params`` is part of the protocol: attackers start from the models that they received.
        Training from any other ``start`` is a trial, which must not change their memory.
        """
        federation, attackers, ids = self.federation, self.cohort.byzantine, self._byzantine_ids
        rows = federation.storage.rows(len(attackers))
        if start is self.model.params:
            updates = self.train_clients(federation.byzantine, attackers, ids, "byzantine", rows)
        else:
            model, work = replace(self.model, params=start), federation.cohorts.work(self.model.round)
            updates = federation.train(federation.byzantine, attackers, ids, "batches", model, rows, None, work)
        return self._sent(updates.columns)

    def _without_attack(self, honest: Updates) -> Tensor:
        """The updates (b, d) of Byzantine clients in a round without attack, trained on their unpoisoned samples.

        Added clients have no samples and send the mean of the honest updates.
        """
        federation, attackers = self.federation, self.cohort.byzantine
        if federation.settings.byzantine_placement == "add":
            return honest.mean.expand(len(attackers), -1)
        # Memory of unpoisoned samples does not fit the poisoned ones, which may be more in number.
        name, rows = "byzantine, no attack", federation.storage.rows(len(attackers))
        return self.train_clients(
            federation.clients.byzantine_clean, attackers, self._byzantine_ids, name, rows
        ).columns

    def _of_their_own(self, view: AttackView, rule: Rule) -> AttackView:
        """The view of attackers that know no honest update, only the updates that they compute on their own samples.

        Their own updates take the place of the honest ones. When they evaluate the rule, these are repeated cyclically,
        so that the rule gets as many updates as in the round; the server's data, its memory and the losses reported to
        it are the real ones.
        """
        federation, attackers, ids = self.federation, self.cohort.byzantine, self._byzantine_ids
        own = view.own.clone()
        zero_non_finite(own)
        turns = torch.arange(view.n, device=own.device) % len(attackers)
        counts, honest = federation.counts[ids][turns], turns[: len(self.cohort.honest)]
        supposed = Updates(view.upload(own[honest]), federation.counts[ids][honest])

        def questions(crafted: Tensor) -> Questions:
            return Questions(supposed, view.upload(crafted), counts)

        label_counts = torch.zeros(len(attackers), 0, dtype=torch.int64)
        if not federation.network.regression:
            label_counts = federation.byzantine.label_counts(federation.clients.num_classes)[attackers]
        mine = replace(
            view,
            honest=Updates(own, federation.counts[ids]),
            clients=torch.tensor(ids),
            label_counts=label_counts,
            assess=self._assessor(federation.byzantine, attackers),
            aggregate=lambda crafted: rule(questions(crafted.reshape(1, -1, crafted.shape[-1]))[0]),
            ask=lambda crafted: self._answers(rule, questions(crafted)),
        )
        mine.own = view.own  # training again would change the clients' memory
        return mine

    def _assessor(self, population: Population, clients: list[int]) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
        """``network.assess`` on a sample of the data of these clients of a population, gathered on first use."""
        sample, network = cache(partial(population.thinned, clients, ASSESSED)), self.federation.network
        return lambda params: network.assess(params, *sample())

    @cached_property
    def _server_view(self) -> Callable[[], ServerView]:
        """A function that creates the rule's view of the server, each time with the same random draws.

        Attackers may evaluate the rule many times in a round; the server trains on its own samples only once, on first
        use.
        """
        federation, model = self.federation, self.model
        parts, network = federation.parts, federation.network

        def train_per_class() -> Tensor:
            classes = list(range(federation.clients.num_classes))
            rows = federation.storage.rows(len(classes))
            rows = federation.train(federation.clients.server, classes, classes, "server batches", model, rows).matrix
            return require_finite(rows, model.round, "the server's update for a class is not finite")

        def train_together() -> Tensor:
            rows = federation.train(
                federation.clients.server_together, [0], [0], "server", model, federation.storage.rows(1)
            ).matrix
            return require_finite(rows[0], model.round, "the server's own update is not finite")

        def gradient(params: Tensor) -> Tensor:
            found = network.gradient(params, federation.clients.server.x, federation.clients.server.y)
            return require_finite(found, model.round, "the server's gradient is not finite")

        per_class, together = cache(train_per_class), cache(train_together)

        def view() -> ServerView:
            ids = torch.from_numpy(federation.cohorts.ids(self.cohort)) if parts.pre_aggregation is None else None
            return ServerView(
                params=model.params,
                step_size=parts.local_update.step_size(self.lr),
                round=model.round,
                rng=seeding.generator(federation.settings.seed, "rule", model.round),
                previous=model.previous,
                clients=ids,
                counts=federation.counts,
                memory=MappingProxyType(model.memory.rule),
                train_per_class=per_class,
                train_together=together,
                loss=lambda params: network.losses(params, federation.clients.server.x, federation.clients.server.y),
                gradient=gradient,
                losses_of=lambda params, clients: federation.reported_losses(params, clients, model.round + 1),
                layers=tuple(shape.numel() for _, shape in network.slots.values()),
            )

        return view


def _non_finite_aggregate(rule: Aggregator, updates: Updates, number: int) -> Exception:
    """The error for a non-finite aggregate: Diverged if the updates are so large that float32 overflows, else
    BrokenContract of the rule."""
    what, largest = f"aggregator {type(rule).__name__} returned a non-finite aggregate", _largest(updates)
    if largest < HUGE:
        return BrokenContract(f"{what} in round {number}, from finite updates of at most {largest:.0e}")
    return Diverged(number, f"{what}, from updates of up to {largest:.0e}")


def _largest(updates: Updates) -> float:
    """The largest absolute value of an entry."""
    return float(torch.stack([*updates.columns.aminmax()]).abs().max())


def require_finite(values: Tensor, round: int, otherwise: str) -> Tensor:
    """The values; raises Diverged, in the round after ``round``, unless all are finite."""
    if not values.isfinite().all():
        raise Diverged(round + 1, otherwise)
    return values


def require_some_finite(num_honest: int, non_finite: int, round: int) -> None:
    """Raise Diverged, in the round after ``round``, if there are honest clients but none has a finite update."""
    if 0 < num_honest == non_finite:
        raise Diverged(round + 1, "no honest client's update is finite")


def zero_non_finite(matrix: Tensor) -> int:
    """Replace rows with a non-finite entry by zeros, in place, before any rule sees them; returns the number of such
    rows."""
    # One pass: the sum of a row is finite unless an entry is not, or the sum overflows, which is checked below.
    fine = matrix.sum(dim=1).isfinite()
    if fine.all():
        return 0
    suspects = (~fine).nonzero().squeeze(1)
    rows = suspects[(~matrix[suspects].isfinite()).any(dim=1)]
    matrix[rows] = 0
    return len(rows)
