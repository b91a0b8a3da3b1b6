"""Gossip: every node has a model of its own and averages with its neighbours (He et al., 2022, arXiv 2202.01545)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from robustfl_bench.base.errors import ConfigError, Diverged
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone, ServerView
from robustfl_bench.parts.protocols import topology as graphs
from robustfl_bench.parts.protocols.base import Engine, Protocol, Setup
from robustfl_bench.parts.protocols.exchange import Exchange
from robustfl_bench.parts.protocols.state import Round, State
from robustfl_bench.parts.protocols.topology import Graph


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

    The recorded model is the mean of the honest nodes'. Nodes that compute one gradient with a small dense network
    compute it together, all others train in turn. A rule goes node by node, unless it has ``aggregate_nodes``, which
    mixes at all nodes at once. A node sends ``bits`` bits for each coordinate over each of its links.
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
    """with from_file: a CSV with the columns node and neighbour; null: none"""
    digest: str | None = None
    """SHA-256 of the file: a changed file makes another run, a moved file does not; null: any file"""
    bits: Annotated[int, between(1, 64)] = 32
    """bits of a coordinate"""

    reports: ClassVar[tuple[str, ...]] = ("links", "bits_per_link")
    clients_compute_alone = True
    whole_matrices = 6

    def __post_init__(self) -> None:
        if (self.topology == "from_file") == (self.path is None):
            raise ConfigError("protocol.path names the file of topology=from_file: give both, or neither")

    def check(self, setup: Setup) -> None:
        """Raise ConfigError for parts that need a server, for a graph that does not exist, and for a rule that cannot
        work with the neighbours of a node, as far as these are known without the seed; DataError for a file that lists
        no links."""
        for group in ("clustering", "availability"):
            if group in setup.others:
                raise ConfigError(f"with protocol=gossip every node has a model and takes part: set {group}=none")
        if setup.local_update.sends_models:
            name = type(setup.local_update).__name__
            raise ConfigError(f"local_update {name} ties clients to a server, and gossip has none: take another")
        if self.topology == "from_file":
            graphs.from_file(str(self.path), self.digest, setup.clients)
        if self.topology in ("erdos_renyi", "from_file"):
            return
        joined = self._joined(setup.clients - setup.num_byzantine)
        fewest = graphs.attached(joined, setup.num_byzantine, self.byzantine_neighbours).fewest_neighbours
        if "pre_aggregation" not in setup.others:
            try:
                setup.rule.check(fewest + 1)
            except ConfigError as error:
                raise ConfigError(f"at a node with {fewest} neighbours: {error}") from error

    def graph(self, engine: Engine) -> Graph:
        """The neighbours of every honest node. Raises ConfigError or DataError."""
        honest, byzantine = engine.honest_ids.tolist(), engine.byzantine_ids.tolist()
        if self.topology == "from_file":
            whole = graphs.from_file(str(self.path), self.digest, len(honest) + len(byzantine))
            found = Graph(whole[np.ix_(honest, honest)], whole[np.ix_(honest, byzantine)])
            return found.checked(f"add links to {self.path}, or choose other attackers by seed")
        if self.topology == "erdos_renyi":
            seeds = engine.draw("topology", 0, lambda n, rng: rng.integers(1 << 62, size=n))[honest]
            joined = graphs.erdos_renyi(self.edge_probability, seeds.tolist())
        else:
            joined = self._joined(len(honest))
        found = graphs.attached(joined, len(byzantine), self.byzantine_neighbours)
        return found.checked("raise protocol.edge_probability, or take another seed")

    def _joined(self, nodes: int) -> np.ndarray:
        """The links among the honest nodes, (h, h) bool."""
        if self.topology == "two_cliques":
            return graphs.two_cliques(nodes, self.bridges)
        return {"ring": graphs.ring, "torus": graphs.torus, "complete": graphs.complete}[self.topology](nodes)

    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate at a node, which knows no server's data, step or losses."""
        known = {name: getattr(server, name) for name in ("params", "round", "rng", "clients", "counts", "memory")}
        node = ServerAlone(rule, _lacking, previous=None, layers=server.layers, **known)
        return rule(updates, node)

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        """The next round of all nodes. The memory holds the honest nodes' models, and what their rules remember."""
        exchange = Exchange(engine, state, self.graph(engine))
        honest = exchange.context.train_nodes(exchange.models)
        non_finite = exchange.context.receive(honest.columns)
        if non_finite == honest.n:
            raise Diverged(state.round + 1, "no honest client's update is finite")
        own, optimizer = exchange.stepped(honest.columns, slice(None))
        sent = exchange.sent(own, honest, self.crafting == "per_neighbourhood")
        moves, rules = exchange.aggregated(exchange.delivered(own, sent), range(len(own)))
        non_finite += sent.lost
        remembered = (dict(sent.crafted.memory), optimizer, rules)
        return exchange.ended(own + moves, honest.losses, non_finite, remembered, sent.crafted.notes, self.bits)


def _lacking(name: str) -> str:
    """What a rule that needs this field of the server lacks at a node."""
    return f"a server, which gossip does not have (it read {name}): take protocol=star"
