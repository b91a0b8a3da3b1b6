"""A client's place on the ring: it sends to the next client and receives from the previous one, or exchanges tensors
with any others, over gloo."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from robustfl_bench.base.errors import Interrupted
from robustfl_bench.runner.processes.peers import PeerLost, Peers, fault

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
