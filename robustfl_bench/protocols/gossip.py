"""Gossip: every node has a model of its own and averages with its neighbours (He et al., 2022, arXiv 2202.01545)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.aggregators.base import Aggregator, ServerAlone, ServerView
from robustfl_bench.attacks.base import Crafted
from robustfl_bench.base.errors import ConfigError, Diverged
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.protocols import topology as graphs
from robustfl_bench.protocols.base import Engine, Protocol, RoundContext, Setup
from robustfl_bench.protocols.state import Cohort, Remembered, Round, State, Trained
from robustfl_bench.protocols.topology import Graph

NODES = "nodes"
"""The name of the honest nodes' models (h, d) in the memory of the protocol."""


@dataclass(frozen=True)
class Gossip(Protocol):
    """No server: in a round, every honest node trains from its own model x_i and sends the result m_i to its
    neighbours, and the rule makes its next model of what it receives.

    At node i the rule receives the differences ``m_j - m_i`` of its neighbours' messages from its own m_i, and first a
    row of zeros for the node itself; the node adds the aggregate to m_i. So every rule works at a node that needs no
    server: one that reads the server's data, step or losses raises ConfigError. ``Updates.counts`` are the gossip
    weights W_ij of Metropolis and Hastings, so that ``aggregator=average aggregator.weighted=true`` is plain gossip,
    the sum of ``W_ij m_j``, and ``weighting=samples`` weighs by them. What a rule remembers is each node's own, and
    there is no last aggregate: ``centered_clipping`` is centred on the node's own model. Random draws of the rule are
    the same at all nodes.

    The graph joins the honest nodes, in the order of their numbers; each has ``byzantine_neighbours`` of the attackers
    as neighbours too. Links from a file are between clients by their numbers, attackers included. The honest nodes
    must be connected without attackers. f of a rule, ``num_byzantine_declared``, is per neighbourhood: by default
    ``byzantine_neighbours`` or ``num_byzantine``, if that is less. That is the largest number of attackers that an
    honest node has as neighbours; links from a file may give less.

    Attackers know everything. Each holds the mean of the honest nodes' models, from which it trains where its attack
    trains. An attack that crafts updates sees those that lead from this mean to the honest messages, and its message
    is the step along what it crafts; with ``crafting`` ``per_neighbourhood`` it does so for every receiver, from the
    receiver's m_i and with the updates of the receiver's honest neighbourhood alone, and can ask the receiver's rule.
    An attack that knows gossip sends every neighbour a message of its own (``Attack.craft_messages``).

    The recorded model is the mean of the honest nodes'. Local training goes node by node, since models differ. So does
    a rule, unless it has ``aggregate_nodes``, which mixes at all nodes at once. A node sends ``bits`` bits for each
    coordinate over each of its links.
    """

    topology: Annotated[
        str,
        one_of(
            ring="two neighbours",
            torus="four, on a grid whose sides touch",
            complete="all others",
            erdos_renyi="every pair by chance",
            two_cliques="all others of the same half, and bridges between the halves",
            from_file="as in path",
        ),
    ] = "ring"
    """neighbours of a node"""
    byzantine_neighbours: Annotated[int | None, at_least(1)] = None
    """attackers that each honest node has as neighbours, in turn; null: all"""
    crafting: Annotated[
        str, one_of(once="for all neighbours alike", per_neighbourhood="for every receiver by what it receives")
    ] = "once"
    """how attackers craft that do not know gossip"""
    edge_probability: Annotated[float, between(0, 1)] = 0.5
    """of a link, with erdos_renyi"""
    bridges: Annotated[int, at_least(1)] = 1
    """links between the halves, with two_cliques"""
    path: str | None = None
    """with from_file: a CSV with the columns node and neighbour"""
    digest: str | None = None
    """SHA-256 of the file: a changed file makes another run, a moved file does not; null: any file"""
    bits: Annotated[int, between(1, 64)] = 32
    """bits of a coordinate"""

    reports: ClassVar[tuple[str, ...]] = ("links", "bits_per_link")
    clients_compute_alone = True

    def __post_init__(self) -> None:
        if (self.topology == "from_file") == (self.path is None):
            raise ConfigError("protocol.path names the file of topology=from_file: give both, or neither")

    def check(self, setup: Setup) -> None:
        """Raise ConfigError for parts that need a server, or all clients in all rounds."""
        for group in ("clustering", "availability"):
            if group in setup.others:
                raise ConfigError(f"with protocol=gossip every node has a model and takes part: set {group}=none")
        if setup.local_update.sends_models:
            name = type(setup.local_update).__name__
            raise ConfigError(f"local_update {name} ties clients to a server, and gossip has none: take another")

    def graph(self, engine: Engine) -> Graph:
        """The neighbours of every honest node. Raises ConfigError or DataError."""
        honest, byzantine = engine.honest_ids.tolist(), engine.byzantine_ids.tolist()
        if self.topology == "from_file":
            assert self.path is not None
            found = graphs.from_file(self.path, self.digest, honest, byzantine)
            return found.checked(f"add links to {self.path}, or choose other attackers by seed")
        found = graphs.attached(self._joined(engine, len(honest)), len(byzantine), self.byzantine_neighbours)
        return found.checked("raise protocol.edge_probability, or take another seed")

    def _joined(self, engine: Engine, nodes: int) -> np.ndarray:
        """The links among the honest nodes, (h, h) bool."""
        if self.topology == "two_cliques":
            return graphs.two_cliques(nodes, self.bridges)
        if self.topology == "erdos_renyi":
            seeds = engine.draw("topology", 0, lambda n, rng: rng.integers(1 << 62, size=n))[engine.honest_ids]
            return graphs.erdos_renyi(
                nodes, self.edge_probability, lambda node: np.random.default_rng(seeds[node]).random(nodes)
            )
        return {"ring": graphs.ring, "torus": graphs.torus, "complete": graphs.complete}[self.topology](nodes)

    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate at a node, which knows no server's data, step or losses."""
        known = {name: getattr(server, name) for name in ("params", "round", "rng", "clients", "counts", "memory")}
        node = ServerAlone(rule, _lacking, previous=None, layers=server.layers, **known)
        return rule(updates, node)

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        """The next round of all nodes. The memory holds the honest nodes' models, and what their rules remember."""
        (cohort,) = cohorts = engine.cohorts(state)
        graph, nodes = self.graph(engine), len(engine.honest_ids)
        if len(cohort) < nodes + len(engine.byzantine_ids):
            raise ConfigError("with protocol=gossip all nodes take part in every round: set participation=1")
        models = state.protocol.get(NODES, state.params.expand(nodes, -1))
        pairs = zip(engine.honest_ids.tolist(), models, strict=True)
        start = {i: replace(state.model(0), params=own) for i, own in pairs}
        context = engine.context(state, cohorts, received=start)
        honest = context.train()
        non_finite = context.receive(honest.columns)
        if non_finite == nodes:
            raise Diverged(state.round + 1, "no honest client's update is finite")
        stepping = engine.context(replace(state, params=models[None]), cohorts)  # of all nodes at once
        own, optimizer = stepping.server_step(honest.columns)
        exchange = Exchange(self, engine, state, graph, context, models, own)
        received, crafted, lost = exchange.received(honest)
        moves, remembered = exchange.aggregated(received)
        after = own + moves
        if not after.isfinite().all():
            raise Diverged(state.round + 1, "a node's model has parameters that are not finite")
        mean = after.mean(dim=0)
        memory = replace(state.memory[0], attack=dict(crafted.memory), server=optimizer)
        whole = Aggregate((state.params[0] - mean) / context.pace)
        trained = Trained(mean, honest.losses, whole, nodes, non_finite + lost, memory, crafted.notes)
        notes = {"links": graph.num_links, "bits_per_link": self.bits * own.shape[1]}
        return engine.after(state, cohorts, [trained], {NODES: after, **remembered}, notes)


@dataclass(frozen=True)
class Exchange:
    """The messages of a round and what the nodes make of them.

    ``models`` (h, d) are the honest nodes' models before the round, ``own`` (h, d) those that they send.
    """

    protocol: Gossip
    engine: Engine
    state: State
    graph: Graph
    context: RoundContext
    models: Tensor
    own: Tensor

    def received(self, honest: Updates) -> tuple[Neighbourhoods, Crafted, int]:
        """What the nodes receive, what the attackers made and the number of their messages that were not finite.

        ``honest`` are the updates that the engine trained; their memory is used again.
        """
        inside, outside = (torch.from_numpy(each) for each in self.graph.weights)
        links = torch.from_numpy(self.graph.byzantine).nonzero().flip(1)  # attacker, receiver; by receivers
        known = {"weights": inside, "byzantine_weights": outside, "links": links}
        crafted = self.context.craft_messages({"before": self.models, "models": self.own, **known})
        if crafted is not None:
            sent, source = crafted.rows.expand(len(links), -1).clone(), torch.arange(len(links))
            lost = self._finite(sent)
        elif self.protocol.crafting == "per_neighbourhood" and len(links):
            sent, source = torch.empty(len(links), self.own.shape[1]), torch.arange(len(links))
            crafted, lost = self._per_neighbourhood(honest, links, sent)
        else:
            crafted, sent, lost = self._crafted(honest)
            source = links[:, 0]
        return self._delivered(inside, outside, links, sent.to(self.own), source), crafted, lost

    def _delivered(
        self, inside: Tensor, outside: Tensor, links: Tensor, sent: Tensor, source: Tensor
    ) -> Neighbourhoods:
        """All messages, those of honest nodes first, by receivers."""
        receiver, sender = torch.from_numpy(self.graph.honest).nonzero().T
        receivers, sources = torch.cat([receiver, links[:, 1]]), torch.cat([sender, len(self.own) + source])
        weights = torch.cat([inside[receiver, sender], outside[links[:, 1], links[:, 0]]])
        order = receivers.argsort(stable=True)
        found = (receivers[order], sources[order], weights[order], inside.diagonal().clone())
        return Neighbourhoods(self.own, torch.cat([self.own, sent]), *(each.to(self.own.device) for each in found))

    def _crafted(self, honest: Updates) -> tuple[Crafted, Tensor, int]:
        """What all attackers send to all their neighbours (b, d), made with a view of all nodes from their mean."""
        mean, pace = self.state.params[0], self.context.pace
        honest.columns.copy_((mean - self.own) / pace)
        whole = Updates(honest.columns, honest.counts, honest.losses)
        updates, crafted = self.context.attack(whole, self.context.aggregate)
        uploads = updates.columns[honest.n :]
        lost = self.context.receive(uploads)
        return crafted, mean - pace * uploads, lost

    def _per_neighbourhood(self, honest: Updates, links: Tensor, sent: Tensor) -> tuple[Crafted, int]:
        """Write the attackers' messages over ``links`` into ``sent`` (e, d), made for one receiver after the other."""
        crafted, lost, pace = Crafted(sent), 0, self.context.pace
        losses = honest.losses
        for node in links[:, 1].unique().tolist():
            here, cohort = links[:, 1] == node, self._around(node)
            context = self._at(node, cohort)
            rows = honest.columns[: len(cohort.honest)]
            rows.copy_((self.own[node] - self.own[cohort.honest]) / pace)
            own_losses = None if losses is None else losses[cohort.honest]
            local = Updates(rows, honest.counts[cohort.honest], own_losses)
            updates, crafted = context.attack(local, context.aggregate)
            if crafted.memory:
                raise ConfigError("the attack remembers what it did, but not to whom: set protocol.crafting=once")
            uploads = updates.columns[len(rows) :]
            lost += context.receive(uploads)
            sent[here] = self.own[node] - pace * uploads
        return crafted, lost

    def aggregated(self, received: Neighbourhoods) -> tuple[Tensor, Remembered]:
        """The rule's vectors (h, d) at all nodes, and what it remembers at each of them."""
        together = self.context.aggregate_nodes(received)
        if together is not None:
            return together, {}
        moves, remembered = torch.empty_like(self.own), dict[str, Tensor]()
        for node in range(len(self.own)):
            aggregate = self._at(node, self._around(node)).aggregate(received.at(node))
            moves[node] = aggregate.vector
            remembered |= {f"{node} {name}": value for name, value in (aggregate.memory or {}).items()}
        return moves, remembered

    def _around(self, node: int) -> Cohort:
        """A node, its honest neighbours, and the attackers among them."""
        honest, byzantine = np.flatnonzero(self.graph.honest[node]), np.flatnonzero(self.graph.byzantine[node])
        return Cohort([node, *honest.tolist()], byzantine.tolist())

    def _at(self, node: int, cohort: Cohort) -> RoundContext:
        """The round of a node, as if it were the server of its neighbours."""
        prefix = f"{node} "
        remembered = {
            name.removeprefix(prefix): value for name, value in self.state.protocol.items() if name.startswith(prefix)
        }
        memory = replace(self.state.memory[0], rule=remembered)
        state = replace(self.state, params=self.own[node, None], previous=None, memory=(memory,))
        return self.engine.context(state, (cohort,))

    def _finite(self, sent: Tensor) -> int:
        """Put the mean model in the place of messages (e, d) that are not finite; returns how many."""
        wrong = ~sent.isfinite().all(dim=1)
        sent[wrong] = self.state.params[0]
        return int(wrong.sum())


def _lacking(name: str) -> str:
    """What a rule that needs this field of the server lacks at a node."""
    return f"a server, which gossip does not have (it read {name}): take protocol=star"
