"""One round of training as computed by one client of the ring, or by one node of gossip, over the links to others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import RingForm
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.parts.protocols.exchange import Exchange, Sent
from robustfl_bench.parts.protocols.gossip import Gossip
from robustfl_bench.parts.protocols.ring import Ring, form_of
from robustfl_bench.parts.protocols.state import Remembered, Round, State, Trained
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.summary import digest
from robustfl_bench.runner.processes.peers import Link
from robustfl_bench.train.context import Context
from robustfl_bench.train.contract import require_finite, require_some_finite
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import Rounds


class Floats:
    """Real numbers, four bytes each."""

    def num_bytes(self, d: int) -> int:
        return 4 * d

    def encode(self, numbers: Tensor) -> Tensor:
        return torch.from_numpy(numbers.numpy().view(np.uint8))

    def decode(self, encoded: Tensor, d: int) -> Tensor:
        return torch.from_numpy(encoded.numpy().view(np.float32))


@dataclass(frozen=True)
class Packed:
    """Numbers ``low``, ``low + step``, ``low + 2 step`` ... in ``bits`` bits each, at most 32."""

    low: int
    step: int
    bits: int

    def num_bytes(self, d: int) -> int:
        return -(-d * self.bits // 8)

    def encode(self, numbers: Tensor) -> Tensor:
        index = ((numbers.numpy() - self.low) / self.step).astype(">u4")
        digits = np.unpackbits(index.view(np.uint8).reshape(-1, 4), axis=1)[:, 32 - self.bits :]
        return torch.from_numpy(np.packbits(digits))

    def decode(self, encoded: Tensor, d: int) -> Tensor:
        digits = np.zeros((d, 32), dtype=np.uint8)
        digits[:, 32 - self.bits :] = np.unpackbits(encoded.numpy(), count=d * self.bits).reshape(d, self.bits)
        index = np.packbits(digits, axis=1).view(">u4").ravel().astype(np.float32)
        return torch.from_numpy(index * self.step + self.low)


Code = Floats | Packed
"""A lossless encoding of a chunk of float32 numbers (d,) as bytes, uint8, whose last one is filled up."""


# One round on the ring: share-reduce, consensus, share-only (BRACE, sections 2.2 and 3).


def codes(form: RingForm, n: int, counting: str) -> tuple[Code, Code]:
    """The encodings of chunks in share-reduce and in share-only: real numbers, or sums of n signs and outcomes.

    A sum of signs takes 32 bits, or the fewest that distinguish -n ... n if ``counting`` is ``needed``. An outcome
    takes one bit, or two if ties are possible (signSGD, RLR, symmetric BRACE), one more than Table 1 counts.
    """
    if form.outcomes is None:
        return Floats(), Floats()
    low, high = int(form.outcomes[0]), int(form.outcomes[-1])
    last = len(form.outcomes) - 1
    sums = Packed(-n, 1, (2 * n).bit_length() if counting == "needed" else 32)
    return sums, Packed(low, (high - low) // last, last.bit_length())


def reduced(link: Link, update: Tensor, form: RingForm, counting: str) -> Tensor:
    """The aggregate (d,), the same for every client, of the clients' updates (d,).

    Client i begins by sending its chunk i. It adds its own part to every chunk that it receives and passes the sum on.
    After n - 1 steps it holds the complete sum of chunk i + 1 and decides its outcomes, which are then passed round.
    """
    n, rank, own = link.size, link.rank, form.sent(update)
    parts, (sums, outcomes) = chunks(len(own), n), codes(form, n, counting)
    held = own[parts[rank]]
    for step in range(1, n):
        mine = own[parts[(rank - step) % n]]
        held = sums.decode(link.exchange(sums.encode(held), sums.num_bytes(len(mine))), len(mine)) + mine
    aggregate = torch.empty_like(own)
    aggregate[parts[(rank + 1) % n]] = decided = form.agreed(held, n)
    encoded = outcomes.encode(decided)
    for step in range(n - 1):
        room = aggregate[parts[(rank - step) % n]]
        encoded = link.exchange(encoded, outcomes.num_bytes(len(room)))
        room.copy_(outcomes.decode(encoded, len(room)))
    return aggregate


class RingStep:
    """The step of client ``link.rank``; ranks belong first to the honest clients, in their order, then the Byzantine.

    All clients end a round with the same model. In an evaluated round, they exchange the numbers that a record needs,
    and the first client returns the record. ``payload`` then holds the bytes of updates that each client sent in the
    round.
    """

    def __init__(self, link: Link, federation: Federation) -> None:
        ids = np.concatenate([federation.clients.honest_ids, federation.clients.byzantine_ids])[[link.rank]]
        clients, parts = federation.clients, federation.parts
        honest = link.rank < len(clients.honest_ids)
        assert isinstance(parts.protocol, Ring)
        self.protocol, self.payload = parts.protocol, list[int]()
        self._link, self._ids = link, ids.tolist()
        self._samples = clients.unpoisoned(ids) if honest else clients.poisoned(ids, parts.attack)
        self._paused = None if honest else clients.unpoisoned(ids)
        self._row = federation.storage.rows(1)

    def outcome(self, request: Request) -> Mapping[str, Any]:
        """What the summary of the run says of the last round on the ring: the bytes sent and those of the formulas."""
        bits = self.protocol.total_bits(request.parts.aggregator, self._link.size, self._row.shape[1])
        sent = {"payload_bytes": self.payload, "formula_bits": bits, "bits_above": 8 * sum(self.payload) - (bits or 0)}
        return {"ring": {"processes": self._link.size, **sent}}

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises RingBroken."""
        attack, rounds, before = federation.parts.attack, Rounds(federation), self._link.payload
        cohorts = rounds.cohorts(state)
        context = rounds.context(state, cohorts)
        name, samples = "own", self._samples
        if self._paused is not None and not attack.active(state.round + 1):
            name, samples = "own, no attack", self._paused
        updates = context.train_clients(samples, [0], self._ids, name, self._row)
        non_finite = context.receive(updates.matrix)
        form = form_of(federation.parts.aggregator)
        vector = reduced(self._link, updates.matrix[0], form, self.protocol.counting)
        params, server = context.server_step(vector)
        require_finite(params, state.round, "the model has parameters that are not finite")
        num_honest, memory = len(federation.clients.honest_ids), replace(context.model.memory, server=server)
        trained = Trained(params, None, Aggregate(vector), num_honest, non_finite, memory)
        after, happened = rounds.after(state, cohorts, [trained])
        if not federation.settings.is_evaluated(after.round):
            return after, None
        assert updates.losses is not None
        same = int(digest(after.params)[:12], 16)
        sent = self._link.payload - before
        heard = self._link.gather([float(updates.losses[0]), non_finite, sent, same])
        if len(set(heard[:, 3].tolist())) > 1:
            raise RuntimeError(f"the clients' models differ after round {after.round}")
        self.payload = heard[:, 2].long().tolist()
        require_some_finite(num_honest, int(heard[:num_honest, 1].sum()), state.round)
        if self._link.rank:
            return after, None
        of_all = replace(trained, losses=heard[:num_honest, 0].clone(), non_finite=int(heard[:, 1].sum()))
        return after, replace(happened, models=(of_all,))


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
        clients = federation.clients
        self._ids = clients.honest_ids[[link.rank]] if link.rank < len(clients.honest_ids) else None
        self._samples = None if self._ids is None else clients.unpoisoned(self._ids)

    def outcome(self, request: Request) -> Mapping[str, Any]:
        """What the summary of the run says of the last evaluated round: the bytes sent, and those of the links."""
        return {"gossip": {"processes": self._link.size, "payload_bytes": self.payload, "formula_bits": self._formula}}

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises RingBroken."""
        rounds, nodes, names = Rounds(federation), len(federation.clients.honest_ids), federation.parts.attack.reports
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
        context = exchange.at(self._link.rank, exchange.models[self._link.rank])
        assert isinstance(context, Context) and self._samples is not None
        updates = context.train_clients(self._samples, [0], self._ids.tolist(), "own", row)
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
        honest = Updates(federation.storage.buffer[: len(facts)], facts[:, 1].clone(), facts[:, 0].clone())
        sent = exchange.sent(own, honest, self.protocol.crafting == "per_neighbourhood")
        receivers, rows = torch.from_numpy(exchange.graph.attackers)[:, 1], sent.rows[sent.source]
        messages = {node: rows[receivers == node] for node in receivers.unique().tolist()}
        self._link.swap(messages, {})
        self._sent = rows.nbytes
        return sent
