"""The one loop: for every model local updates, attack, pre-aggregation, aggregation, server step; then evaluation.

It names no rule, attack or data set, and knows no configuration, disk or clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from robustfl_bench import seeding
from robustfl_bench.engine.clients import Federation, Group, State
from robustfl_bench.engine.evaluation import Record, Trained, client_weights, model_metrics, traffic, weight_metrics
from robustfl_bench.interfaces import AttackView, ConfigError, ServerView, StartView
from robustfl_bench.updates import Aggregate, Updates


def initial_state(federation: Federation) -> State:
    """The state before the first round."""
    clustering, clusters = federation.experiment.clustering, federation.clusters
    if clustering is None:
        return State(0, federation.network.initial[None])
    if clusters is not None:
        clusters = np.where(np.isin(np.arange(len(clusters)), federation.honest_ids), clusters, -1)
    view = StartView(
        seed=federation.experiment.settings.seed,
        rng=seeding.generator,
        initial=federation.network.another_initial,
        truth=federation.data.truth,
        clients=federation.samples,
        clusters=clusters,
        module=federation.network.module,
    )
    params, groups = clustering.start(view)
    return State(0, params, groups=groups)


def run(federation: Federation, state: State) -> Iterator[tuple[State, Record | None]]:
    """Go on from ``state`` to the last round; yield every round's new state, with a record if it is evaluated."""
    s, schedule = federation.experiment.settings, federation.experiment.schedule
    while state.round < s.rounds:
        lr = schedule(s.lr, state.round)
        groups = federation.groups(state)
        models = [_trained(federation, state.of(model), group, lr) for model, group in enumerate(groups)]
        params, previous = torch.stack([model.params for model in models]), _last_aggregates(state, models)
        memory = tuple(_remembered(state.of(i), model) for i, model in enumerate(models))
        weights = client_weights(federation, groups, models)
        state = replace(state, round=state.round + 1, params=params, previous=previous, memory=memory, weights=weights)
        record = None
        if state.round % s.eval_every == 0 or state.round == s.rounds:
            record = {"round": state.round, "lr": lr}
            losses = [model.losses for model in models if model.losses is not None]
            if losses:
                record["train_loss"] = float(torch.cat(losses).mean())
            record |= model_metrics(federation, state.params, groups)
            record |= weight_metrics(models)
            record["non_finite_updates"] = sum(model.non_finite for model in models)
            record |= traffic(federation, state.round)
            if len(models) > 1:
                record["empty_clusters"] = sum(not len(group) for group in groups)
                record["untrained_clusters"] = sum(model.aggregate is None for model in models)
        yield state, record


def _trained(federation: Federation, state: State, group: Group, lr: float) -> Trained:
    """One round of one model, by those who train it."""
    clustering, step_size = federation.experiment.clustering, federation.experiment.local_update.step_size(lr)
    honest = _honest_updates(federation, group.honest, state)
    non_finite = zero_non_finite(honest.matrix)
    if clustering is not None and not _enough(federation, len(group)):
        return Trained(state.params, honest.losses, None, honest.n, non_finite)
    updates = _attacked(federation, honest, group.honest, group.attackers, state, lr)
    non_finite += zero_non_finite(updates.matrix[honest.n :])
    clients = np.concatenate([federation.honest_ids[group.honest], federation.byzantine_ids[group.attackers]])
    aggregate = _aggregate(federation, updates, clients, state, lr)
    if clustering is None:
        params = state.params - step_size * aggregate.vector
    else:
        share = len(group) / federation.experiment.settings.clients_per_round
        params = clustering.step(state.params, aggregate.vector, step_size, share)
    return Trained(params, honest.losses, aggregate, honest.n, non_finite)


def _enough(federation: Federation, n: int) -> bool:
    """Whether the rule can work with a group of n clients: one that cannot leaves the model as it is."""
    rule = federation.experiment.aggregator
    if n and federation.experiment.pre_aggregation is None and hasattr(rule, "check"):
        try:
            rule.check(n)
        except ConfigError:
            return False
    return n > 0


def _last_aggregates(state: State, models: Sequence[Trained]) -> Tensor:
    """The aggregates (k, d) of this round; of a model that was not trained, the one before, or zero."""
    before = torch.zeros_like(state.params) if state.previous is None else state.previous
    pairs = list(zip(models, before, strict=True))
    if all(model.aggregate is None for model in models):
        raise ConfigError("every group of clients is too small for the rule; take fewer clusters, or a lower f")
    return torch.stack([old if model.aggregate is None else model.aggregate.vector for model, old in pairs])


def _remembered(state: State, model: Trained) -> dict[str, Tensor]:
    """What the rule remembers of a model after this round; of one that was not trained, what it did before."""
    if model.aggregate is None:
        return state.memory[0] if state.memory else {}
    return model.aggregate.memory or {}


def _honest_updates(federation: Federation, present: list[int], state: State) -> Updates:
    ids, storage = federation.honest_ids[present].tolist(), federation.storage[: len(present)]
    memory = state.local.setdefault("honest", {})
    return federation.train(federation.honest, present, ids, "batches", state, storage, memory)


def _attacked(
    federation: Federation, honest: Updates, present: list[int], attackers: list[int], state: State, lr: float
) -> Updates:
    """The honest updates with the Byzantine clients' rows below them."""
    if not attackers:
        return honest
    ids = federation.byzantine_ids[attackers].tolist()
    storage = federation.storage[: honest.n + len(attackers)]
    clients = np.concatenate([federation.honest_ids[present], ids])
    models = getattr(federation.experiment.local_update, "sends_models", False)

    def sent(rows: Tensor) -> Tensor:
        """The uploads that stand behind updates; and, as it undoes itself, the updates behind uploads."""
        return state.params - rows if models else rows

    def joined(crafted: Tensor) -> Updates:
        return honest.append(sent(crafted).expand(len(attackers), -1), federation.counts[ids], storage)

    def train_own(start: Tensor) -> Tensor:
        rows, there = federation.rows(len(attackers)), replace(state, params=start)
        # Only training from the model that was received is part of the scheme: other trials leave no trace.
        memory = state.local.setdefault("byzantine", {}) if start is state.params else None
        return sent(federation.train(federation.byzantine, attackers, ids, "batches", there, rows, memory).matrix)

    view = AttackView(
        honest=Updates(sent(honest.matrix), honest.counts, honest.losses) if models else honest,
        num_byzantine=len(attackers),
        round=state.round,
        lr=lr,
        params=state.params,
        label_counts=federation.label_counts[present],
        rng=seeding.generator(federation.experiment.settings.seed, "attack", state.round),
        train_own=train_own,
        aggregate=lambda crafted: _aggregate(federation, joined(crafted), clients, state, lr),
    )
    attack = federation.experiment.attack
    return joined(attack.craft(view) if honest.n or attack.alone else view.own)


def _aggregate(federation: Federation, updates: Updates, clients: np.ndarray, state: State, lr: float) -> Aggregate:
    """What the rule makes of the updates of ``clients`` (n,)."""
    s, experiment, network = federation.experiment.settings, federation.experiment, federation.network

    def train_per_class() -> Tensor:
        classes = list(range(federation.num_classes))
        rows = federation.rows(len(classes))
        return federation.train(federation.server, classes, classes, "server batches", state, rows).matrix

    def train_together() -> Tensor:
        return federation.train(federation.server_together, [0], [0], "server", state, federation.rows(1)).matrix[0]

    server = ServerView(
        params=state.params,
        step_size=experiment.local_update.step_size(lr),
        round=state.round,
        rng=seeding.generator(s.seed, "rule", state.round),
        previous=state.previous,
        clients=torch.from_numpy(clients) if experiment.pre_aggregation is None else None,
        counts=federation.counts,
        memory=state.memory[0] if state.memory else {},
        train_per_class=train_per_class,
        train_together=train_together,
        loss=lambda params: network.losses(params, federation.server.x, federation.server.y),
        gradient=lambda params: network.gradient(params, federation.server.x, federation.server.y),
        losses_of=federation.reported_losses,
    )
    if experiment.pre_aggregation is not None:
        updates = experiment.pre_aggregation(updates, seeding.generator(s.seed, "pre-aggregation", state.round))
    if experiment.communication is not None:
        return experiment.communication.aggregate(experiment.aggregator, updates, server)
    return experiment.aggregator(updates, server)


def zero_non_finite(matrix: Tensor) -> int:
    """Replace rows with a non-finite entry by zeros, in place: a rule never sees them. Returns how many there were."""
    # The sum of a row is finite unless an entry is not (or it overflows: look closer); it reads the matrix once.
    fine = matrix.sum(dim=1).isfinite()
    if fine.all():
        return 0
    suspects = (~fine).nonzero().squeeze(1)
    rows = suspects[(~matrix[suspects].isfinite()).any(dim=1)]
    matrix[rows] = 0
    return len(rows)
