"""A round: for every model local updates, attack, pre-aggregation, aggregation and the server's step.

This module refers to no specific rule, attack or data set and uses no configuration, disk or clock. A diverged model
raises Diverged, a part that breaks its contract raises BrokenContract.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.attacks.base import AttackView, Crafted
from robustfl_bench.base import seeding
from robustfl_bench.base.errors import BrokenContract, ConfigError, Diverged
from robustfl_bench.clustering.base import StartView
from robustfl_bench.engine.cohorts import Cohort
from robustfl_bench.engine.contract import aggregate_fault, crafted_fault, mixed_fault
from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.parts import Parts
from robustfl_bench.engine.state import Memory, ModelState, Remembered, State
from robustfl_bench.network.network import Network
from robustfl_bench.network.samples import Population
from robustfl_bench.numerics.updates import Aggregate, Updates

ASSESSED = 1024
"""The largest number of samples of the honest clients' data on which attackers assess a model."""

HUGE = torch.finfo(torch.float32).max ** 0.5
"""Squares of larger numbers overflow in float32."""


@dataclass(frozen=True)
class Trained:
    """A model (d,) after a round, with the honest clients' losses and the rule's aggregate of the cohort's updates.

    ``aggregate`` is None for a model that did not change because its cohort was empty or too small for the rule.
    ``notes`` are the numbers that the attack reports.
    """

    params: Tensor
    losses: Tensor | None
    aggregate: Aggregate | None
    num_honest: int
    non_finite: int
    memory: Memory
    notes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """All results of round ``number`` (from 1) that a record may need, with an entry for each model."""

    number: int
    lr: float
    cohorts: tuple[Cohort, ...]
    models: tuple[Trained, ...]


def initial_state(federation: Federation) -> State:
    """The state before the first round."""
    clustering, clusters = federation.parts.clustering, federation.clusters
    if clustering is None:
        return State.start(federation.network.initial[None])
    if clusters is not None:
        clusters = np.where(np.isin(np.arange(len(clusters)), federation.honest_ids), clusters, -1)
    view = StartView(
        seed=federation.settings.seed,
        rng=seeding.generator,
        initial=federation.network.another_initial,
        truth=federation.data.truth,
        clients=federation.samples,
        clusters=clusters,
        module=federation.network.module,
    )
    return State.start(*clustering.start(view))


def step(federation: Federation, state: State) -> tuple[State, Round]:
    """The state after the next round, and the results of that round."""
    lr = federation.parts.schedule(federation.settings.lr, state.round)
    cohorts = federation.cohorts.of(state)
    n = sum(map(len, cohorts))
    models = tuple(_trained(federation, state.model(i), cohort, n, lr) for i, cohort in enumerate(cohorts))
    after = replace(
        state,
        round=state.round + 1,
        params=torch.stack([model.params for model in models]),
        previous=_last_aggregates(federation, state, models),
        memory=tuple(model.memory for model in models),
        weights=_client_weights(federation, cohorts, models),
    )
    return after, Round(after.round, lr, cohorts, models)


def server_step(
    parts: Parts, params: Tensor, aggregate: Tensor, lr: float, memory: Mapping[str, Tensor], share: float = 1.0
) -> tuple[Tensor, Remembered]:
    """The next parameters (d,) of a model trained by a ``share`` of the round's clients, and the optimizer's memory of
    it."""
    step_size = parts.local_update.step_size(lr)
    if parts.clustering is not None:
        step_size *= parts.clustering.step_scale(share)
    params, remembered = parts.server_optimizer(params, aggregate, step_size, MappingProxyType(memory))
    return params if parts.clustering is None else parts.clustering.project(params), dict(remembered)


def _trained(federation: Federation, model: ModelState, cohort: Cohort, n: int, lr: float) -> Trained:
    """One round of one model; ``n`` is the number of clients in the round."""
    honest = _honest_updates(federation, cohort, model)
    non_finite = _delivered(federation, honest.matrix)
    require_some_finite(honest.n, non_finite, model.round)
    if not _enough(federation.parts, len(cohort)):
        return Trained(model.params, honest.losses, None, honest.n, non_finite, model.memory)
    share = len(cohort) / n

    def moved(vector: Tensor) -> tuple[Tensor, Remembered]:
        return server_step(federation.parts, model.params, vector, lr, model.memory.server, share)

    view = _server_view(federation, cohort, model, lr)

    def rule(updates: Updates) -> Aggregate:
        return _aggregate(federation, model, view(), updates)

    updates, attack = _attacked(federation, honest, cohort, model, lr, rule, moved)
    non_finite += _delivered(federation, updates.matrix[honest.n :])
    aggregate = rule(updates)
    if not aggregate.vector.isfinite().all():
        raise _non_finite_aggregate(federation.parts.aggregator, updates, model.round + 1)
    params, server = moved(aggregate.vector)
    require_finite(params, model.round, "the model has parameters that are not finite")
    memory = replace(model.memory, rule=dict(aggregate.memory or {}), attack=dict(attack.memory), server=server)
    return Trained(params, honest.losses, aggregate, honest.n, non_finite, memory, attack.notes)


def _delivered(federation: Federation, uploads: Tensor) -> int:
    """Turn uploads (n, d) into the updates that the server receives, in place; returns how many were not finite."""
    if federation.parts.communication is not None:
        federation.parts.communication.deliver(uploads)
    return zero_non_finite(uploads)


def _enough(parts: Parts, n: int) -> bool:
    """Whether the rule can work with a cohort of n clients; otherwise the model does not change."""
    try:
        if n:
            parts.check_clients(n)
    except ConfigError:
        return False
    return n > 0


def _last_aggregates(federation: Federation, state: State, models: Sequence[Trained]) -> Tensor | None:
    """The aggregates (k, d) of this round; for a model that was not trained, the previous one, or zeros.

    Raises ConfigError if no model was trained, unless clients can drop out.
    """
    if all(model.aggregate is None for model in models):
        if federation.parts.availability is not None:
            return state.previous
        raise ConfigError("every cohort of clients is too small for the rule; take fewer clusters, or a lower f")
    before = torch.zeros_like(state.params) if state.previous is None else state.previous
    pairs = zip(models, before, strict=True)
    return torch.stack([old if model.aggregate is None else model.aggregate.vector for model, old in pairs])


def _client_weights(federation: Federation, cohorts: Sequence[Cohort], models: Sequence[Trained]) -> Tensor | None:
    """The weight of every client (N,) float64, nan for clients that did not take part; None for several models or a
    rule without weights."""
    if len(models) > 1 or models[0].aggregate is None or models[0].aggregate.weights is None:
        return None
    weights = torch.full((federation.settings.total_clients,), torch.nan, dtype=torch.float64)
    weights[federation.cohorts.ids(cohorts[0])] = models[0].aggregate.weights.cpu()
    return weights


def _honest_updates(federation: Federation, cohort: Cohort, model: ModelState) -> Updates:
    ids, buffer = federation.honest_ids[cohort.honest].tolist(), federation.buffer[: len(cohort.honest)]
    memory, work = model.memory.local.setdefault("honest", {}), federation.cohorts.work(model.round)
    return federation.train(federation.honest, cohort.honest, ids, "batches", model, buffer, memory, work)


def _attacked(
    federation: Federation,
    honest: Updates,
    cohort: Cohort,
    model: ModelState,
    lr: float,
    rule: Callable[[Updates], Aggregate],
    moved: Callable[[Tensor], tuple[Tensor, Remembered]],
) -> tuple[Updates, Crafted]:
    """The honest updates followed by the Byzantine clients' rows, and the attack's ``Crafted``.

    ``rule`` maps updates to the server's aggregate, ``moved`` maps an aggregate to the next model.
    """
    attack, attackers = federation.parts.attack, cohort.byzantine
    if not attackers:
        return honest, Crafted(honest.matrix[:0], model.memory.attack)
    ids, buffer = federation.byzantine_ids[attackers].tolist(), federation.buffer[: len(cohort)]
    if not attack.active(model.round + 1):
        rows = _paused(federation, honest, attackers, model)
        return honest.append(rows, federation.counts[ids], buffer), Crafted(rows, model.memory.attack)
    sends_models = federation.parts.local_update.sends_models

    def sent(rows: Tensor) -> Tensor:
        """The uploads for updates, and, because this map is its own inverse, the updates for uploads."""
        return model.params - rows if sends_models else rows

    def joined(crafted: Tensor) -> Updates:
        return honest.append(sent(crafted).expand(len(attackers), -1), federation.counts[ids], buffer)

    def train_own(start: Tensor) -> Tensor:
        rows, there = federation.rows(len(attackers)), replace(model, params=start)
        # Only training from the received model is part of the protocol; other trials must not change the memory.
        memory = model.memory.local.setdefault("byzantine", {}) if start is model.params else None
        work = federation.cohorts.work(model.round)
        return sent(federation.train(federation.byzantine, attackers, ids, "batches", there, rows, memory, work).matrix)

    view = AttackView(
        honest=Updates(sent(honest.matrix), honest.counts, honest.losses) if sends_models else honest,
        clients=torch.from_numpy(federation.honest_ids[cohort.honest]),
        n=len(cohort),
        num_byzantine=len(attackers),
        round=model.round,
        lr=lr,
        params=model.params,
        previous=model.previous,
        label_counts=federation.label_counts[cohort.honest],
        rng=seeding.generator(federation.settings.seed, "attack", model.round),
        memory=MappingProxyType(model.memory.attack),
        train_own=train_own,
        aggregate=lambda crafted: rule(joined(crafted)),
        upload=sent,
        after=lambda vector: moved(vector)[0],
        assess=_assessor(federation.network, federation.honest, cohort.honest),
    )
    if federation.settings.knowledge == "own":
        view = _of_their_own(federation, view, cohort, model, rule)
    elif not honest.n and attack.needs_honest:
        return joined(view.own), Crafted(view.own, model.memory.attack)
    crafted = federation.contract.call(
        "attack",
        attack,
        honest.matrix,
        lambda: attack.craft(view),
        lambda crafted: crafted_fault(crafted, len(attackers), honest.matrix),
    )
    made = crafted if isinstance(crafted, Crafted) else Crafted(crafted)
    return joined(made.rows), made


def _assessor(
    network: Network, population: Population, clients: list[int]
) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
    """``network.assess`` on a sample of the data of these clients of a population, gathered on first use."""
    sample = cache(partial(population.thinned, clients, ASSESSED))
    return lambda params: network.assess(params, *sample())


def _paused(federation: Federation, honest: Updates, attackers: list[int], model: ModelState) -> Tensor:
    """The updates (b, d) of Byzantine clients in a round without attack, trained on their unpoisoned samples.

    Added clients have no samples and send the mean of the honest updates.
    """
    if federation.settings.byzantine_placement == "add":
        return honest.mean.expand(len(attackers), -1)
    ids, rows = federation.byzantine_ids[attackers].tolist(), federation.rows(len(attackers))
    # Memory of unpoisoned samples does not fit the poisoned ones, which may be more in number.
    memory, work = model.memory.local.setdefault("byzantine, no attack", {}), federation.cohorts.work(model.round)
    return federation.train(federation.byzantine_clean, attackers, ids, "batches", model, rows, memory, work).matrix


def _of_their_own(
    federation: Federation, view: AttackView, cohort: Cohort, model: ModelState, rule: Callable[[Updates], Aggregate]
) -> AttackView:
    """The view of attackers that know no honest update, only the updates that they compute on their own samples.

    Their own updates take the place of the honest ones. When they evaluate the rule, these are repeated cyclically, so
    that the rule gets as many updates as in the round; the server's data, its memory and the losses reported to it are
    the real ones.
    """
    attackers = cohort.byzantine
    ids = federation.byzantine_ids[attackers].tolist()
    own = view.own.clone()
    zero_non_finite(own)
    turns = torch.arange(view.n, device=own.device) % len(attackers)
    counts = federation.counts[ids][turns]

    def aggregate(crafted: Tensor) -> Aggregate:
        supposed = torch.cat([own[turns[: len(cohort.honest)]], crafted.expand(len(attackers), -1)])
        return rule(Updates(view.upload(supposed), counts))

    label_counts = torch.zeros(len(attackers), 0, dtype=torch.int64)
    if not federation.network.regression:
        label_counts = federation.byzantine.label_counts(federation.num_classes)[attackers]
    mine = replace(
        view,
        honest=Updates(own, federation.counts[ids]),
        clients=torch.tensor(ids),
        label_counts=label_counts,
        aggregate=aggregate,
        assess=_assessor(federation.network, federation.byzantine, attackers),
    )
    mine.own = view.own  # training again would change the clients' memory
    return mine


def _server_view(federation: Federation, cohort: Cohort, model: ModelState, lr: float) -> Callable[[], ServerView]:
    """A function that creates the rule's view of the server, each time with the same random draws.

    Attackers may evaluate the rule many times in a round; the server trains on its own samples only once, on first use.
    """
    s, parts, network = federation.settings, federation.parts, federation.network

    def train_per_class() -> Tensor:
        classes = list(range(federation.num_classes))
        rows = federation.rows(len(classes))
        rows = federation.train(federation.server, classes, classes, "server batches", model, rows).matrix
        return require_finite(rows, model.round, "the server's update for a class is not finite")

    def train_together() -> Tensor:
        rows = federation.train(federation.server_together, [0], [0], "server", model, federation.rows(1)).matrix
        return require_finite(rows[0], model.round, "the server's own update is not finite")

    def gradient(params: Tensor) -> Tensor:
        found = network.gradient(params, federation.server.x, federation.server.y)
        return require_finite(found, model.round, "the server's gradient is not finite")

    per_class, together = cache(train_per_class), cache(train_together)

    def view() -> ServerView:
        return ServerView(
            params=model.params,
            step_size=parts.local_update.step_size(lr),
            round=model.round,
            rng=seeding.generator(s.seed, "rule", model.round),
            previous=model.previous,
            clients=torch.from_numpy(federation.cohorts.ids(cohort)) if parts.pre_aggregation is None else None,
            counts=federation.counts,
            memory=MappingProxyType(model.memory.rule),
            train_per_class=per_class,
            train_together=together,
            loss=lambda params: network.losses(params, federation.server.x, federation.server.y),
            gradient=gradient,
            losses_of=lambda params, clients: federation.reported_losses(params, clients, model.round + 1),
            layers=tuple(shape.numel() for _, shape in network.slots.values()),
        )

    return view


def _aggregate(federation: Federation, model: ModelState, server: ServerView, updates: Updates) -> Aggregate:
    """The rule's aggregate of a cohort's updates."""
    parts = federation.parts
    contract, prepared = federation.contract, updates
    if (preparation := parts.pre_aggregation) is not None:
        stream = seeding.generator(federation.settings.seed, "pre-aggregation", model.round)
        prepared = contract.call(
            "pre-aggregation",
            preparation,
            updates.matrix,
            lambda: preparation(updates, stream),
            lambda mixed: mixed_fault(mixed, updates),
        )

    def combined() -> Aggregate:
        if parts.communication is not None:
            return parts.communication.aggregate(parts.aggregator, prepared, server)
        return parts.aggregator(prepared, server)

    try:
        return contract.call(
            "aggregator", parts.aggregator, updates.matrix, combined, lambda made: aggregate_fault(made, updates)
        )
    except (ConfigError, BrokenContract, Diverged):
        raise
    except (ArithmeticError, ValueError, RuntimeError) as error:  # for example from linear algebra
        if (largest := _largest(updates)) < HUGE:
            raise
        reason = f"aggregator {type(parts.aggregator).__name__} failed with updates of up to {largest:.0e} ({error})"
        raise Diverged(model.round + 1, reason) from error


def _non_finite_aggregate(rule: Aggregator, updates: Updates, number: int) -> Exception:
    """The error for a non-finite aggregate: Diverged if the updates are so large that float32 overflows, else
    BrokenContract of the rule."""
    what, largest = f"aggregator {type(rule).__name__} returned a non-finite aggregate", _largest(updates)
    if largest < HUGE:
        return BrokenContract(f"{what} in round {number}, from finite updates of at most {largest:.0e}")
    return Diverged(number, f"{what}, from updates of up to {largest:.0e}")


def _largest(updates: Updates) -> float:
    """The largest absolute value of an entry."""
    return float(torch.stack([*updates.matrix.aminmax()]).abs().max())


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
