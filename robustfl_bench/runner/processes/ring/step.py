"""One round of training as computed by one client of the ring, over the links to its neighbours."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from robustfl_bench.base.errors import Interrupted
from robustfl_bench.numerics.updates import Aggregate
from robustfl_bench.parts.aggregators.base import RingForm
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.parts.protocols.ring import Ring, form_of
from robustfl_bench.parts.protocols.state import Round, State, Trained
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.summary import digest
from robustfl_bench.runner.processes.peers import PeerLost, Peers, fault
from robustfl_bench.train.contract import require_finite, require_some_finite
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import Rounds

# A client's place on the ring: it sends to the next client and receives from the previous one, or exchanges tensors
# with any others, over gloo.


INTERFACE = "GLOO_SOCKET_IFNAME"  # the variable that names the network interface of a ring's clients
FORMING = timedelta(minutes=5)  # time for all clients to read their data, or for the first to write the result


class RingBroken(Interrupted):
    """A neighbour has gone or is silent."""


class Link:
    """Client ``rank`` of ``size``. ``payload`` counts the bytes of updates that the client has sent. ``member`` is the
    word for it in messages.

    RingBroken is raised at once when a neighbour closes its connection, and after ``timeout`` seconds when a neighbour
    is silent.
    """

    def __init__(self, rank: int, size: int, timeout: float, member: str = "client") -> None:
        self.rank, self.size, self.payload, self.member = rank, size, 0, member
        self._timeout = timedelta(seconds=timeout)

    def exchange(self, outgoing: Tensor, num_bytes: int) -> Tensor:
        """Send bytes of an update to the next client; returns the ``num_bytes`` bytes from the previous client."""
        self.payload += outgoing.numel()
        return self._pass_on(outgoing, torch.empty(num_bytes, dtype=torch.uint8), self._timeout)

    def gather(self, numbers: list[float] | Tensor, forming: bool = False) -> Tensor:
        """The numbers of every client, (size, k) float64; as book-keeping, they do not count as payload."""
        rows = torch.zeros(self.size, len(numbers), dtype=torch.float64)
        rows[self.rank] = torch.as_tensor(numbers, dtype=torch.float64)
        for step in range(self.size - 1):
            mine = rows[(self.rank - step) % self.size]
            rows[(self.rank - step - 1) % self.size] = self._pass_on(
                mine, torch.empty_like(mine), FORMING if forming else self._timeout
            )
        return rows

    def _pass_on(self, outgoing: Tensor, incoming: Tensor, timeout: timedelta) -> Tensor:
        before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        self.swap({after: outgoing}, {before: incoming}, timeout)
        return incoming

    def swap(
        self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor], timeout: timedelta | None = None
    ) -> None:
        """Send tensors to other clients, by their ranks, and fill ``incoming`` with those that others send; nothing
        counts as payload."""
        timeout, neighbour, start = timeout or self._timeout, self.rank, time.monotonic()
        sending, receiving = list[tuple[int, dist.Work | None]](), list[tuple[int, dist.Work | None]]()
        try:
            for neighbour, numbers in outgoing.items():
                sending.append((neighbour, dist.isend(numbers, neighbour)))
            for neighbour, room in incoming.items():
                receiving.append((neighbour, dist.irecv(room, neighbour)))
            for neighbour, work in [*receiving, *sending]:  # noqa: B007 - the error names it
                assert work is not None
                start = time.monotonic()
                work.wait(timeout)
        except RuntimeError as error:
            raise RingBroken(f"{self.member} {neighbour} {fault(start, timeout)}") from error


def arrival(meeting_point: str, rank: int) -> Path:
    """The file that a client of this machine makes when it comes to the meeting point; one that waits there for the
    others hears no signal."""
    return Path(f"{meeting_point.removeprefix('file://')}-{rank}")


@contextmanager
def joined(rank: int, size: int, meeting_point: str, timeout: float, member: str = "client") -> Iterator[Link]:
    """Meet the other clients at ``meeting_point`` (a new ``file://`` address, or ``env://`` under torchrun)."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # failures are reported in one line
    if meeting_point.startswith("file://"):
        arrival(meeting_point, rank).touch()
    try:
        dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=size, timeout=FORMING)
    except RuntimeError as error:
        remedy = "" if INTERFACE in os.environ else f"; across hosts, set {INTERFACE} to the interface of their network"
        raise RingBroken(f"the {size} {member}s did not meet: {' '.join(str(error).split())}{remedy}") from error
    try:
        try:
            Peers(timeout=FORMING.total_seconds())  # lets nobody in who does not know the secret
        except PeerLost as error:
            raise RingBroken(str(error)) from error
        yield Link(rank, size, timeout, member)
    finally:
        dist.destroy_process_group()


class Code(Protocol):
    """A lossless encoding of a chunk of float32 numbers (d,) as bytes."""

    def num_bytes(self, d: int) -> int:
        """Number of bytes for d numbers; the last byte is filled up."""

    def encode(self, numbers: Tensor) -> Tensor:
        """The numbers (d,) as bytes, uint8."""

    def decode(self, encoded: Tensor, d: int) -> Tensor:
        """The d numbers in these bytes, float32."""


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


GO_ON = "the same command goes on from the last checkpoint"


@contextmanager
def told(link: Link, number: int) -> Iterator[None]:
    """Context in which the message of a RingBroken names the client and the round ``number``."""
    try:
        yield
    except (RingBroken, PeerLost) as error:
        raise RingBroken(f"{link.member} {link.rank} stops in round {number}: {error}; {GO_ON}") from error


class RingStep:
    """The step of client ``link.rank``; ranks belong first to the honest clients, in their order, then the Byzantine.

    All clients end a round with the same model. In an evaluated round, they exchange the numbers that a record needs,
    and the first client returns the record. ``payload`` then holds the bytes of updates that each client sent in the
    round.
    """

    def __init__(self, link: Link, federation: Federation) -> None:
        ids = np.concatenate([federation.clients.honest_ids, federation.clients.byzantine_ids])[[link.rank]]
        honest, parts, protocol = (
            link.rank < len(federation.clients.honest_ids),
            federation.parts,
            federation.parts.protocol,
        )
        assert isinstance(protocol, Ring)
        self.protocol, self.payload = protocol, list[int]()
        self._link, self._ids = link, ids.tolist()
        self._samples = federation.clients.unpoisoned(ids) if honest else federation.clients.poisoned(ids, parts.attack)
        self._paused = None if honest else federation.clients.unpoisoned(ids)
        self._row = federation.storage.rows(1)

    def outcome(self, request: Request) -> Mapping[str, Any]:
        """What the summary of the run says of the last round on the ring: the bytes sent and those of the formulas."""
        bits = self.protocol.total_bits(request.parts.aggregator, self._link.size, self._row.shape[1])
        sent = {"payload_bytes": self.payload, "formula_bits": bits, "bits_above": 8 * sum(self.payload) - (bits or 0)}
        return {"ring": {"processes": self._link.size, **sent}}

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises RingBroken."""
        with told(self._link, state.round + 1):
            return self._round(federation, state)

    def _round(self, federation: Federation, state: State) -> tuple[State, Round | None]:
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
