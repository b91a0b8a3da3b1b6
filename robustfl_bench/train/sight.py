"""What attackers, and the rule, see of a round, and what they may ask in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import ServerView
from robustfl_bench.parts.attacks.base import AttackView, Crafted, GossipView
from robustfl_bench.parts.protocols.base import Rule
from robustfl_bench.train.contract import crafted_fault, nodes_fault, require_finite, vectors_fault, zero_non_finite
from robustfl_bench.train.views import supposed_clients

if TYPE_CHECKING:
    from robustfl_bench.train.context import Context
    from robustfl_bench.train.federation import Federation

ASSESSED = 1024
"""The largest number of samples of the honest clients' data on which attackers assess a model."""


def of_attackers(context: Context, honest: Updates, rule: Rule, questions: Callable[[Tensor], Questions]) -> AttackView:
    """The view of attackers who know the honest updates; ``questions`` are about the rule's answer to theirs."""
    federation = context.federation
    if federation.parts.local_update.sends_models:
        honest = Updates(context._sent(honest.columns), honest.counts, honest.losses, honest.place)
    return AttackView(
        honest=honest,
        clients=torch.from_numpy(federation.clients.honest_ids[context.cohort.honest]),
        n=len(context.cohort),
        num_byzantine=len(context.cohort.byzantine),
        round=context.model.round,
        lr=context.lr,
        params=context.model.params,
        previous=context.model.previous,
        label_counts=federation.label_counts[context.cohort.honest],
        rng=seeding.generator(federation.settings.seed, "attack", context.model.round),
        memory=MappingProxyType(context.model.memory.attack),
        train_own=partial(train_byzantine, context),
        upload=context._sent,
        after=lambda vector: context.server_step(vector)[0],
        assess=_assessor(federation, federation.honest, context.cohort.honest),
        aggregate=lambda crafted: rule(questions(crafted.reshape(1, -1, crafted.shape[-1]))[0]),
        ask=lambda crafted: answers(context, rule, questions(crafted)),
    )


def of_their_own(context: Context, view: AttackView, rule: Rule) -> AttackView:
    """The view of attackers that know no honest update, only the updates that they compute on their own samples.

    Their own updates take the place of the honest ones. When they evaluate the rule, it gets the updates of clients
    whom they suppose, others than those whom they simulate: a simulation would else show them answers that come true.
    The server's data, its memory and the losses reported to it are the real ones.
    """
    federation, attackers, ids = context.federation, context.cohort.byzantine, context._byzantine_ids
    own = view.own.clone()
    zero_non_finite(own)

    @cache
    def supposed() -> Updates:
        places, clients = context.cohort.honest, federation.clients
        named, rows = clients.honest_ids[places].tolist(), federation.storage.rows(len(places))
        updates = context.train_clients(supposed_clients(clients, "asked"), places, named, "asked", rows, "asked")
        zero_non_finite(updates.columns)
        return updates

    def questions(crafted: Tensor) -> Questions:
        return Questions(supposed(), view.upload(crafted), torch.cat([supposed().counts, federation.counts[ids]]))

    label_counts = torch.zeros(len(attackers), 0, dtype=torch.int64)
    if not federation.network.regression:
        label_counts = federation.byzantine.label_counts(federation.clients.num_classes)[attackers]
    mine = replace(
        view,
        honest=Updates(own, federation.counts[ids]),
        clients=torch.tensor(ids),
        label_counts=label_counts,
        assess=_assessor(federation, federation.byzantine, attackers),
        aggregate=lambda crafted: rule(questions(crafted.reshape(1, -1, crafted.shape[-1]))[0]),
        ask=lambda crafted: answers(context, rule, questions(crafted)),
    )
    mine.own = view.own  # training again would change the clients' memory
    return mine


def train_byzantine(context: Context, start: Tensor) -> Tensor:
    """The uploads (b, d) of Byzantine clients that train on their poisoned samples.

    Training from ``model.params`` is part of the protocol: attackers start from the models that they received.
    Training from any other ``start`` is a trial, which must not change their memory.
    """
    federation, attackers, ids = context.federation, context.cohort.byzantine, context._byzantine_ids
    rows = federation.storage.rows(len(attackers))
    if start is context.model.params:
        updates = context.train_clients(federation.byzantine, attackers, ids, "byzantine", rows)
    else:
        model, work = replace(context.model, params=start), federation.cohorts.work(context.model.round)
        updates = federation.train(federation.byzantine, attackers, ids, "batches", model, rows, None, work)
    return context._sent(updates.columns)


def without_attack(context: Context, honest: Updates) -> Tensor:
    """The updates (b, d) of Byzantine clients in a round without attack, trained on their unpoisoned samples.

    Added clients have no samples and send the mean of the honest updates.
    """
    federation, attackers = context.federation, context.cohort.byzantine
    if federation.settings.byzantine_placement == "add":
        return honest.mean.expand(len(attackers), -1)
    # Memory of unpoisoned samples does not fit the poisoned ones, which may be more in number.
    name, rows = "byzantine, no attack", federation.storage.rows(len(attackers))
    return context.train_clients(
        federation.clients.byzantine_clean, attackers, context._byzantine_ids, name, rows
    ).columns


def craft_messages(context: Context, known: Mapping[str, Tensor]) -> Crafted | None:
    """The models that attackers send over their links, one for every neighbour, with what is ``known``."""
    federation, number = context.federation, context.model.round
    attack = federation.parts.attack
    if not context.cohort.byzantine or not attack.active(number + 1):
        return None
    view = GossipView(
        **known,
        round=number,
        lr=context.lr,
        rng=seeding.generator(federation.settings.seed, "attack", number),
        memory=MappingProxyType(context.model.memory.attack),
    )
    crafted = federation.contract.call(
        "craft_messages of attack",
        attack,
        view.models,
        lambda: attack.craft_messages(view),
        lambda made: "" if made is None else crafted_fault(made, len(view.links), view.models),
    )
    return Crafted(crafted) if isinstance(crafted, Tensor) else crafted


def aggregate_nodes(context: Context, nodes: Neighbourhoods) -> Tensor | None:
    """The rule's vectors (h, d) at all nodes that gossip, at once; None if it must be asked node by node."""
    parts = context.federation.parts
    rule = parts.aggregator
    if parts.pre_aggregation is not None or not overrides(rule, "aggregate_nodes"):
        return None
    return context.federation.contract.call(
        "aggregate_nodes of aggregator",
        rule,
        nodes.messages,
        lambda: rule.aggregate_nodes(nodes),
        lambda made: nodes_fault(made, nodes.own),
    )


def answers(context: Context, rule: Rule, questions: Questions) -> Tensor:
    """The vectors (k, d) of the rule for the questions of attackers, at once if nothing but the rule itself is
    asked and all candidates are finite.

    The rule is asked one by one where it fails, so that the question at fault is found.
    """
    parts, contract = context.federation.parts, context.federation.contract
    alone = rule == context.aggregate and parts.pre_aggregation is None and not parts.course.aggregates
    if len(questions) == 1 or not alone or not all(questions.finite):
        return torch.stack([rule(updates).vector for updates in questions])
    aggregator, answers = parts.aggregator, []
    for some in questions.split():
        try:
            vectors = contract.call(
                "aggregate_many of aggregator",
                aggregator,
                some.honest.matrix,
                partial(aggregator.aggregate_many, some, context._server_view),
                partial(vectors_fault, questions=some),
            )
        except ConfigError:
            raise
        except (ArithmeticError, ValueError, RuntimeError):  # for example from linear algebra
            vectors = torch.stack([rule(updates).vector for updates in some])
        answers.append(vectors)
    return torch.cat(answers)


def _assessor(
    federation: Federation, population: Population, clients: list[int]
) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
    """``network.assess`` on a sample of the data of these clients of a population, gathered on first use."""
    sample, network = cache(partial(population.thinned, clients, ASSESSED)), federation.network
    return lambda params: network.assess(params, *sample())


def of_server(context: Context) -> Callable[[], ServerView]:
    """A function that creates the rule's view of the server, each time with the same random draws.

    Attackers may evaluate the rule many times in a round; the server trains on its own samples only once, on first
    use.
    """
    federation, model = context.federation, context.model
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
        ids = torch.from_numpy(federation.cohorts.ids(context.cohort)) if parts.pre_aggregation is None else None
        return ServerView(
            params=model.params,
            step_size=parts.local_update.step_size(context.lr),
            round=model.round,
            rng=seeding.generator(federation.settings.seed, "rule", model.round),
            previous=model.previous,
            clients=ids,
            counts=federation.counts,
            memory=MappingProxyType(model.memory.rule),
            after=lambda vector: context.server_step(vector)[0],
            train_per_class=per_class,
            train_together=together,
            loss=lambda params: network.losses(params, federation.clients.server.x, federation.clients.server.y),
            gradient=gradient,
            losses_of=lambda params, clients: reported_losses(federation, params, clients, model.round + 1),
            layers=tuple(shape.numel() for _, shape in network.slots.values()),
        )

    return view


def reported_losses(federation: Federation, params: Tensor, ids: Tensor, round: int) -> Tensor:
    """The mean losses (m,) float64 at a model (d,) that the clients ``ids`` (m,) report for their training samples.

    Added clients have no samples; their true loss is the mean of the honest clients' losses. Byzantine clients may
    report false losses in a ``round`` (from 1) in which the attack is active.
    """
    clients, attack = federation.clients, federation.parts.attack
    honest, byzantine = (
        np.flatnonzero(np.isin(every, ids.cpu())) for every in (clients.honest_ids, clients.byzantine_ids)
    )
    losses = torch.zeros(federation.settings.total_clients, dtype=torch.float64, device=params.device)
    if len(honest):
        losses[clients.honest_ids[honest]] = clients.losses(federation.honest, honest.tolist(), params[None])[:, 0]
    if len(byzantine):
        reported = losses[clients.honest_ids[honest]]
        if federation.settings.byzantine_placement == "replace":
            own = clients.losses(federation.attackers_samples(round), byzantine.tolist(), params[None])[:, 0]
        else:
            own = reported.mean().expand(len(byzantine))
        false = attack.report(own, reported) if attack.active(round) else own
        losses[clients.byzantine_ids[byzantine]] = false
    return losses[ids]
