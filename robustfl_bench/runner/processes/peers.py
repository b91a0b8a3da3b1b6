"""The processes of a ``torch.distributed`` group, each of which proves that it belongs to it: sums and exchanges, and
links to single ones, with one line for the peer that fails."""

import hmac
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from robustfl_bench.base.errors import ConfigError, Interrupted, one_line
from robustfl_bench.numerics.updates import finite_parts

VARIABLE = "ROBUSTFL_TOKEN"
"""The environment variable with the secret; without it, the secret is empty and any process may join."""

LENGTH = 32
"""Bytes of a challenge, and of a proof."""


def proof(challenges: Sequence[bytes], rank: int) -> bytes:
    """What process ``rank`` sends to show that it knows the secret, for the random ``challenges`` of all processes."""
    secret = os.environ.get(VARIABLE, "").encode()
    return hmac.digest(secret, b"".join(challenges) + rank.to_bytes(8, "big"), "sha256")


PROBING = timedelta(seconds=0.2)  # the longest wait for a peer that may have gone
PROBE = 1  # the tag of a message to such a peer, which no exchange has


class PeerLost(Interrupted):
    """A process of the group has gone or is silent."""


class Peers:
    """Process ``rank`` of ``size`` in a group of ``torch.distributed``, by default the one of all processes.

    ``sent`` counts the bytes that this process has sent of updates and aggregates. PeerLost is raised at once when a
    peer has closed its connection, and after ``timeout`` seconds when a peer is silent; the ranks that it names are
    those of the group. A group whose processes have failed once is not used again. Raises ConfigError if a process does
    not know the secret of the group (``token``).
    """

    def __init__(self, group: dist.ProcessGroup | None = None, timeout: float = 300.0) -> None:
        if not dist.is_initialized():
            raise ConfigError("torch.distributed is not set up: call torch.distributed.init_process_group first")
        self.group, self.rank, self.size, self.sent = group, dist.get_rank(group), dist.get_world_size(group), 0
        self._timeout = timedelta(seconds=timeout)
        self._admit()

    def _admit(self) -> None:
        """Raise ConfigError, naming the rank, unless all processes know the same secret, as ``token`` describes."""
        challenges = [bytes(row) for row in self._told(os.urandom(LENGTH))]
        proofs = self._told(proof(challenges, self.rank))
        for rank, given in enumerate(proofs):
            if not hmac.compare_digest(given, proof(challenges, rank)):
                remedy = f"set the same {VARIABLE} for all processes"
                raise ConfigError(f"rank {rank} does not know the secret of the group: {remedy}")

    def _told(self, mine: bytes) -> list[bytes]:
        """The bytes of every process, which are as many as those of this one."""
        rows = torch.empty(self.size, len(mine), dtype=torch.uint8)
        self._swap([torch.frombuffer(bytearray(mine), dtype=torch.uint8)] * self.size, list(rows))
        return [row.numpy().tobytes() for row in rows]

    def agree(self, what: Mapping[str, int], told: int = 0) -> Tensor:
        """Raise ConfigError on every process, naming the first rank that differs from rank 0, unless all pass the same
        numbers under the same names. Returns what each process has ``told``, (size,) int64."""
        mine = torch.tensor([*what.values(), told], dtype=torch.int64)
        rows = torch.zeros(self.size, len(mine), dtype=torch.int64)
        self._swap([mine] * self.size, list(rows))
        for rank, row in enumerate(rows.tolist()):
            for name, value, first in zip(what, row, rows[0].tolist(), strict=False):
                if value != first:
                    raise ConfigError(
                        f"the processes disagree on {name}: rank 0 has {first}, rank {rank} has {value}; "
                        "start all of them with the same rule, settings and parameters"
                    )
        return rows[:, -1]

    def drop_non_finite(self, rows: Tensor) -> list[int]:
        """Set to 0 the rows of which any process has a number that is not finite in its columns, and return them.

        The receiver of a column tests it, so that all processes drop the same rows of a matrix (n, k).
        """
        bad = torch.tensor([not finite for finite in finite_parts(rows)], dtype=torch.float64)
        wrong: list[int] = self.sum(bad).nonzero().flatten().tolist()
        rows[wrong] = 0
        return wrong

    def swap(self, outgoing: Sequence[Tensor], incoming: Sequence[Tensor]) -> None:
        """Send ``outgoing[i]`` to process i and receive ``incoming[i]`` from it; the own part is copied."""
        self.sent += sum(part.numel() * part.element_size() for i, part in enumerate(outgoing) if i != self.rank)
        self._swap(outgoing, incoming)

    def _swap(self, outgoing: Sequence[Tensor], incoming: Sequence[Tensor]) -> None:
        incoming[self.rank].copy_(outgoing[self.rank])
        begun, peer, start = list[tuple[int, dist.Work | None]](), self.rank, time.monotonic()
        try:
            for step in range(1, self.size):
                peer = (self.rank - step) % self.size
                if (room := incoming[peer]).numel():
                    begun.append((peer, dist.irecv(room, group=self.group, group_src=peer)))
                peer = (self.rank + step) % self.size
                if (part := outgoing[peer]).numel():
                    begun.append((peer, dist.isend(part, group=self.group, group_dst=peer)))
            for peer, work in begun:  # noqa: B007 - the error names it
                assert work is not None
                start = time.monotonic()
                work.wait(self._timeout)
        except RuntimeError as error:
            raise self._lost(f"rank {peer}", start) from error

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum of the processes' tensors, the same bytes on all of them."""
        total, start = numbers.contiguous().clone(), time.monotonic()
        try:
            work = dist.all_reduce(total, group=self.group, async_op=True)
            assert work is not None
            work.wait(self._timeout)
        except RuntimeError as error:
            raise self._lost(self._gone(), start) from error
        return total

    def _gone(self) -> str:
        """The peer whose connection is closed, as a sum over all does not say whose fault it is."""
        for peer in {*range(self.size)} - {self.rank}:
            try:
                if work := dist.isend(torch.zeros(1), group=self.group, tag=PROBE, group_dst=peer):
                    work.wait(PROBING)
            except RuntimeError as error:
                if "imed out" not in str(error):
                    return f"rank {peer}"
        return "a rank"

    def _lost(self, who: str, start: float) -> PeerLost:
        return PeerLost(f"{who} of the group {fault(start, self._timeout)}; rank {self.rank} stops")


def fault(start: float, timeout: timedelta) -> str:
    """What an exchange that began at ``start``, of the monotonic clock, and has failed says of the peer, in words that
    follow its name. The time tells it, as the words of ``torch.distributed`` differ between systems."""
    limit = timeout.total_seconds()
    return f"is silent for {limit:g} s" if time.monotonic() - start >= limit else "has gone"


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
        raise RingBroken(f"the {size} {member}s did not meet: {one_line(error)}{remedy}") from error
    try:
        try:
            Peers(timeout=FORMING.total_seconds())  # lets nobody in who does not know the secret
        except PeerLost as error:
            raise RingBroken(str(error)) from error
        yield Link(rank, size, timeout, member)
    finally:
        dist.destroy_process_group()


GO_ON = "the same command goes on from the last checkpoint"


@contextmanager
def told(link: Link, number: int) -> Iterator[None]:
    """Context in which the message of a RingBroken names the client and the round ``number``."""
    try:
        yield
    except (RingBroken, PeerLost) as error:
        raise RingBroken(f"{link.member} {link.rank} stops in round {number}: {error}; {GO_ON}") from error
