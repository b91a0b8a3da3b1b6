"""One round of gossip in its stages, for all nodes in one process or for one node in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError, Diverged
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.attacks.base import Crafted
from robustfl_bench.parts.protocols.base import Engine, RoundContext
from robustfl_bench.parts.protocols.state import Cohort, Remembered, Round, State, Trained
from robustfl_bench.parts.protocols.topology import Graph

NODES = "nodes"
"""The name of the honest nodes' models (h, d) in the memory of the protocol."""


@dataclass(frozen=True)
class Sent:
    """The attackers' messages in a round: row ``source[k]`` of ``rows`` travels over link k of ``Graph.attackers``.

    ``crafted`` is what the attack returned; ``lost`` messages or updates were not finite.
    """

    rows: Tensor
    source: Tensor
    crafted: Crafted
    lost: int


@dataclass(frozen=True)
class Exchange:
    """The round after ``state`` on a ``graph``. Models and messages (h, d) are in the order of the honest clients."""

    engine: Engine
    state: State
    graph: Graph

    @cached_property
    def cohort(self) -> Cohort:
        """All clients. Raises ConfigError if some do not take part."""
        (cohort,) = self.engine.cohorts(self.state)
        if len(cohort) < sum(self.graph.byzantine.shape):
            raise ConfigError("with protocol=gossip all nodes take part in every round: set participation=1")
        return cohort

    @cached_property
    def models(self) -> Tensor:
        """The honest nodes' models before the round, (h, d)."""
        start = self.state.params.expand(len(self.graph.honest), -1)
        return self.state.protocol.get(NODES, start)

    @cached_property
    def context(self) -> RoundContext:
        """The round of all nodes, in which attackers train from the mean of the honest nodes' models."""
        return self.engine.context(self.state, (self.cohort,))

    def stepped(self, updates: Tensor, nodes: slice) -> tuple[Tensor, Remembered]:
        """What these nodes make of their own updates (k, d): their models, and the memory of their optimizers."""
        return self.engine.context(replace(self.state, params=self.models[None, nodes]), (self.cohort,)).server_step(
            updates
        )

    def sent(self, own: Tensor, honest: Updates, per_neighbourhood: bool) -> Sent:
        """What the attackers send, given the models ``own`` (h, d) that honest nodes send.

        ``honest`` are the updates that the engine trained; their memory is used again.
        """
        inside, outside = (torch.from_numpy(each) for each in self.graph.weights)
        links = torch.from_numpy(self.graph.attackers)
        every = torch.arange(len(links))
        known = {"before": self.models, "models": own, "links": links, "weights": inside, "byzantine_weights": outside}
        crafted = self.context.craft_messages({name: value.to(own.device) for name, value in known.items()})
        if crafted is not None:
            rows = crafted.rows.expand(len(links), -1).clone()
            wrong = ~rows.isfinite().all(dim=1)
            rows[wrong] = self.state.params[0]
            return Sent(rows, every, crafted, int(wrong.sum()))
        if per_neighbourhood and len(links):
            rows, crafted, lost = self._for_each_receiver(own, honest, links)
            return Sent(rows, every, crafted, lost)
        rows, crafted, lost = self._for_all(own, honest)
        return Sent(rows, links[:, 0], crafted, lost)

    def _for_all(self, own: Tensor, honest: Updates) -> tuple[Tensor, Crafted, int]:
        """The attackers' messages (b, d), made with a view of all nodes from the mean of their models."""
        mean, pace = self.state.params[0], self.context.pace
        honest.columns.copy_((mean - own) / pace)
        seen = Updates(honest.columns, honest.counts, honest.losses)
        updates, crafted = self.context.attack(seen, self.context.aggregate)
        uploads = updates.columns[honest.n :]
        lost = self.context.receive(uploads)
        return mean - pace * uploads, crafted, lost

    def _for_each_receiver(self, own: Tensor, honest: Updates, links: Tensor) -> tuple[Tensor, Crafted, int]:
        """The attackers' messages over ``links`` (e, 2), made for one receiver after the other."""
        rows, crafted, lost, pace = own.new_empty(len(links), own.shape[1]), Crafted(own[:0]), 0, self.context.pace
        for node in links[:, 1].unique().tolist():
            context, around = self.at(node, own[node]), self._around(node).honest
            near = honest.columns[: len(around)]
            near.copy_((own[node] - own[around]) / pace)
            seen = Updates(near, honest.counts[around], None if honest.losses is None else honest.losses[around])
            updates, crafted = context.attack(seen, context.aggregate)
            if context.model.memory.local.get("byzantine"):
                raise ConfigError("the attackers train for every receiver, and a local update with memory trains once "
                                  "in a round: set protocol.crafting=once")  # fmt: skip
            if crafted.memory:
                raise ConfigError("the attack remembers what it did, but not to whom: set protocol.crafting=once")
            uploads = updates.columns[len(around) :]
            lost += context.receive(uploads)
            rows[links[:, 1] == node] = own[node] - pace * uploads
        return rows, crafted, lost

    def delivered(self, own: Tensor, sent: Sent) -> Neighbourhoods:
        """What all nodes receive."""
        inside, outside = (torch.from_numpy(each) for each in self.graph.weights)
        receiver, sender = torch.from_numpy(self.graph.honest).nonzero().T
        attacker, attacked = torch.from_numpy(self.graph.attackers).T
        receivers, sources = torch.cat([receiver, attacked]), torch.cat([sender, len(own) + sent.source])
        weights = torch.cat([inside[receiver, sender], outside[attacked, attacker]])
        order = receivers.argsort(stable=True)
        found = (receivers[order], sources[order], weights[order], inside.diagonal().clone())
        return Neighbourhoods(own, torch.cat([own, sent.rows]), *(each.to(own.device) for each in found))

    def delivered_to(self, node: int, own: Tensor, messages: Tensor) -> Neighbourhoods:
        """What one node receives: its own model (1, d), and the messages of its neighbours, attackers last."""
        inside, outside = (torch.from_numpy(each[node]) for each in self.graph.weights)
        around = self._around(node)
        weights = torch.cat([inside[around.honest[1:]], outside[around.byzantine]])
        every = torch.arange(len(messages))
        return Neighbourhoods(own, messages, torch.zeros_like(every), every, weights, inside[node, None])

    def aggregated(self, received: Neighbourhoods, nodes: Sequence[int]) -> tuple[Tensor, Remembered]:
        """The rule's vectors (k, d) at ``nodes``, whose neighbourhoods these are, and what it remembers at each."""
        together = self.context.aggregate_nodes(received)
        if together is not None:
            return together, {}
        moves, remembered = torch.empty_like(received.own), dict[str, Tensor]()
        for place, node in enumerate(nodes):
            aggregate = self.at(node, received.own[place]).aggregate(received.at(place))
            moves[place] = aggregate.vector
            remembered |= {f"{node} {name}": value for name, value in (aggregate.memory or {}).items()}
        return moves, remembered

    def ended(
        self,
        models: Tensor,
        losses: Tensor | None,
        non_finite: int,
        remembered: tuple[Remembered, Remembered, Remembered],
        notes: Mapping[str, float],
        bits: int,
    ) -> tuple[State, Round]:
        """The state after the round, whose models are ``models`` (h, d), and its results. Raises Diverged.

        ``remembered`` is what the attack, the optimizers and the rules remember, ``notes`` what the attack reports, and
        ``bits`` are those of a coordinate.
        """
        if not models.isfinite().all():
            raise Diverged(self.state.round + 1, "a node's model has parameters that are not finite")
        mean = models.mean(dim=0)
        attack, optimizer, rules = remembered
        memory = replace(self.state.memory[0], attack=attack, server=optimizer)
        whole = Aggregate((self.state.params[0] - mean) / self.context.pace)
        trained = Trained(mean, losses, whole, len(models), non_finite, memory, notes)
        reported = {"links": self.graph.num_links, "bits_per_link": bits * models.shape[1]}
        return self.engine.after(self.state, (self.cohort,), [trained], {NODES: models, **rules}, reported)

    def _around(self, node: int) -> Cohort:
        """A node, its honest neighbours, and the attackers among them."""
        honest, byzantine = (np.flatnonzero(each[node]).tolist() for each in (self.graph.honest, self.graph.byzantine))
        return Cohort([node, *honest], byzantine)

    def at(self, node: int, own: Tensor) -> RoundContext:
        """The round of a node with its own model (d,), as if it were the server of its neighbours."""
        prefix = f"{node} "
        kept = self.state.protocol.items()
        remembered = {name.removeprefix(prefix): value for name, value in kept if name.startswith(prefix)}
        memory = replace(self.state.memory[0], rule=remembered)
        state = replace(self.state, params=own[None], previous=None, memory=(memory,))
        return self.engine.context(state, (self._around(node),))
