"""What one of the processes of a run has: a part of the clients, and a part of the columns of all updates."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.numerics.places import Place
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.runner.processes.peers import Peers


@dataclass(frozen=True)
class Share:
    """The part of process ``peers.rank`` in rounds of models with ``d`` parameters.

    Clients are dealt out by their positions among the honest clients or among the attackers, one after the other.
    """

    peers: Peers
    d: int

    @property
    def place(self) -> Place:
        """The columns that are here."""
        mine = self._columns[self.peers.rank]
        return Place(self.d, mine.start, mine.stop, self.peers.sum if self.peers.size > 1 else None)

    def here(self, clients: Sequence[int]) -> list[int]:
        """The rows of those of the ``clients``, positions, that train in this process."""
        return self._of(self.peers.rank, clients)

    def exchanged(self, rows: Tensor, clients: Sequence[int], out: Tensor) -> None:
        """Write the columns here of the updates of all ``clients`` into ``out`` (n, k); ``rows`` (m, d) are the whole
        updates of those that train here. Raises PeerLost."""
        owners = [self._of(rank, clients) for rank in range(self.peers.size)]
        received = [out.new_empty(len(owned), out.shape[1]) for owned in owners]
        self.peers.swap([rows[:, part].contiguous() for part in self._columns], received)
        for owned, part in zip(owners, received, strict=True):
            out[owned] = part

    def gathered(self, part: Tensor) -> Tensor:
        """The whole vectors (..., d) whose columns here are ``part`` (..., k). Raises PeerLost."""
        rows = part.reshape(-1, part.shape[-1])
        received = [rows.new_empty(len(rows), columns.stop - columns.start) for columns in self._columns]
        self.peers.swap([rows.contiguous()] * self.peers.size, received)
        return torch.cat(received, dim=1).reshape(*part.shape[:-1], self.d)

    @property
    def _columns(self) -> list[slice]:
        return chunks(self.d, self.peers.size)

    def _of(self, rank: int, clients: Sequence[int]) -> list[int]:
        return [row for row, client in enumerate(clients) if client % self.peers.size == rank]
