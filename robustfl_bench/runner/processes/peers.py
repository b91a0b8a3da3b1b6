"""The processes of a ``torch.distributed`` group, each of which proves that it belongs to it: sums and exchanges, with
one line for the peer that fails."""

import hmac
import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from robustfl_bench.base.errors import ConfigError, Interrupted
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
