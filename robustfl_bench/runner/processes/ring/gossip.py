"""One round of gossip as computed by the process of one honest node, or by that of all attackers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.protocols.exchange import Exchange, Sent
from robustfl_bench.parts.protocols.gossip import Gossip
from robustfl_bench.parts.protocols.state import Remembered, Round, State
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.processes.ring.link import Link
from robustfl_bench.runner.processes.ring.step import told
from robustfl_bench.train.context import Context, require_some_finite
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import Rounds


class GossipStep:
    """The step of process ``link.rank``: of the honest node of that number, or, the last one, of all attackers.

    A node computes its next model from its own model and from what its neighbours send. Attackers know everything: all
    honest nodes send their messages to the attackers' process too, which answers with one for every link. After the
    round, as book-keeping, all processes tell each other the honest nodes' models, for the record and for the
    attackers' next round. ``payload`` holds the bytes of messages that each process sent to honest nodes in the last
    evaluated round.
    """

    def __init__(self, link: Link, federation: Federation) -> None:
        protocol = federation.parts.protocol
        assert isinstance(protocol, Gossip)
        self.protocol, self.payload = protocol, list[int]()
        self._link, self._sent, self._formula = link, 0, 0
        self._ids = federation.honest_ids[[link.rank]] if link.rank < len(federation.honest_ids) else None
        self._samples = None if self._ids is None else federation.unpoisoned(self._ids)

    def outcome(self, request: Request) -> Mapping[str, Any]:
        """What the summary of the run says of the last evaluated round: the bytes sent, and those of the links."""
        return {"gossip": {"processes": self._link.size, "payload_bytes": self.payload, "formula_bits": self._formula}}

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises RingBroken."""
        with told(self._link, state.round + 1):
            return self._round(federation, state)

    def _round(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        rounds, nodes, names = Rounds(federation), len(federation.honest_ids), federation.parts.attack.reports
        exchange = Exchange(rounds, state, self.protocol.graph(rounds))
        row = torch.zeros(1, state.params.shape[1])
        facts = self._trained(exchange, row)
        require_some_finite(nodes, int(facts[:nodes, 2].sum()), state.round)
        lost, notes, remembered = 0, dict.fromkeys(names, np.nan), (Remembered(), Remembered(), Remembered())
        if self._ids is None:
            sent = self._attack(federation, exchange, facts[:nodes])
            lost, notes, remembered = sent.lost, {**sent.crafted.notes}, (dict(sent.crafted.memory), *remembered[1:])
        else:
            own, optimizer = exchange.stepped(row, slice(self._link.rank, self._link.rank + 1))
            row, rules = self._gossip(exchange, own)
            remembered = (Remembered(), optimizer, rules)
        models = self._link.gather(row[0])[:nodes].to(row.dtype)
        heard = self._link.gather([lost, self._sent, *(float(notes.get(name, np.nan)) for name in names)])
        self.payload = heard[:, 1].long().tolist()
        self._formula = 32 * models.shape[1] * int(exchange.graph.honest.sum() + exchange.graph.byzantine.sum())
        notes = dict(zip(names, heard[-1, 2:].tolist(), strict=True))
        non_finite = int(facts[:nodes, 2].sum() + heard[:, 0].sum())
        after, happened = exchange.ended(models, facts[:nodes, 0].clone(), non_finite, remembered, notes, 32)
        return after, None if self._link.rank else happened

    def _trained(self, exchange: Exchange, row: Tensor) -> Tensor:
        """Write the update of this process's node into ``row`` (1, d); returns the loss, the number of samples and the
        number of updates that are not finite, of every process (size, 3)."""
        if self._ids is None:
            return self._link.gather([0, 0, 0])
        assert isinstance(exchange.context, Context) and self._samples is not None
        updates = exchange.context.train_clients(self._samples, [0], self._ids.tolist(), "own", row)
        assert updates.losses is not None
        non_finite = exchange.context.receive(row)
        return self._link.gather([float(updates.losses[0]), float(updates.counts[0]), non_finite])

    def _gossip(self, exchange: Exchange, own: Tensor) -> tuple[Tensor, Remembered]:
        """The next model (1, d) of this process's node and what its rule remembers, after the exchange with its
        neighbours."""
        graph, node = exchange.graph, self._link.rank
        neighbours, attackers = np.flatnonzero(graph.honest[node]).tolist(), int(graph.byzantine[node].sum())
        messages = own.new_empty(len(neighbours) + attackers, own.shape[1])
        everyone = [*neighbours, len(graph.honest)] if graph.byzantine.shape[1] else neighbours
        self._link.swap(dict.fromkeys(everyone, own[0]), dict(zip(neighbours, messages, strict=False)))
        self._sent = len(neighbours) * own[0].nbytes
        if attackers:
            self._link.swap({}, {len(graph.honest): messages[len(neighbours) :]})
        moves, remembered = exchange.aggregated(exchange.delivered_to(node, own, messages), [node])
        if remembered and self.protocol.crafting == "per_neighbourhood":
            raise ConfigError("over processes, attackers cannot ask a rule that remembers: set protocol.crafting=once")
        return own + moves, remembered

    def _attack(self, federation: Federation, exchange: Exchange, facts: Tensor) -> Sent:
        """Send the attackers' messages, and return them; ``facts`` (h, 3) are those of the honest nodes."""
        own = torch.empty(len(facts), exchange.state.params.shape[1])
        self._link.swap({}, dict(enumerate(own)))
        honest = Updates(federation.buffer[: len(facts)], facts[:, 1].clone(), facts[:, 0].clone())
        sent = exchange.sent(own, honest, self.protocol.crafting == "per_neighbourhood")
        receivers, rows = torch.from_numpy(exchange.graph.attackers)[:, 1], sent.rows[sent.source]
        messages = {node: rows[receivers == node] for node in receivers.unique().tolist()}
        self._link.swap(messages, {})
        self._sent = rows.nbytes
        return sent
