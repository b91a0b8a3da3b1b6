"""A vector for each client in the memory of a local update, from the round on in which the client first takes part."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Samples


class ClientRows:
    """The vectors (d,) of those of ``count`` clients that have taken part, in ``memory``, which a checkpoint stores.

    Clients that get their vectors at the same time form a block, a tensor (m, d) of its own, so that no growth copies
    the vectors that are there. ``memory[name]`` (count, 2) int64, on the CPU, has the block of each client and the row
    in it; -1 without a vector.
    """

    def __init__(self, memory: dict[str, Tensor], name: str, count: int) -> None:
        self._memory, self._name = memory, name
        if name not in memory:
            memory[name] = torch.full((count, 2), -1)
        memory[name] = memory[name].cpu()  # a checkpoint is restored on the device of the run
        self._places = memory[name]

    def __len__(self) -> int:
        return int((self._places[:, 0] >= 0).sum())

    def missing(self, clients: Sequence[int]) -> list[int]:
        """The positions in ``clients`` of those without a vector."""
        return [position for position, block in enumerate(self._places[list(clients), 0].tolist()) if block < 0]

    def add(self, clients: Sequence[int], vectors: Tensor) -> None:
        """Give these clients their first ``vectors`` (m, d); the tensor itself is kept."""
        number = int(self._places[:, 0].max()) + 1
        self._memory[f"{self._name}_{number}"] = vectors
        self._places[list(clients)] = torch.stack([torch.full((len(vectors),), number), torch.arange(len(vectors))], 1)

    def block(self, clients: Sequence[int]) -> Tensor | None:
        """The stored vectors (n, d) of these clients if they are a block in this order, else None."""
        numbers, rows = self._places[list(clients)].T
        block = self._memory.get(f"{self._name}_{int(numbers[0])}")
        whole = block is not None and len(block) == len(rows) and bool((numbers == numbers[0]).all())
        return block if whole and torch.equal(rows, torch.arange(len(rows))) else None

    def vectors(self, clients: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """The position and the stored vector (d,) of each of these clients that has one."""
        for position, (number, row) in enumerate(self._places[list(clients)].tolist()):
            if number >= 0:
                yield position, self._memory[f"{self._name}_{number}"][row]


Turn = tuple[Sequence[int], Iterable[Batch]]
"""Positions of clients, and the batches of their steps; each holds samples of all of them."""


def by_steps(samples: Samples, number: int, together: int) -> Iterator[Turn]:
    """Turns of at most ``together`` clients of ``samples`` with ``number`` steps on batches drawn anew, of which
    stragglers make fewer."""
    drawn = [samples.batch(step) for step in range(number)]
    for steps, group in _alike([samples.repeats(i, number) for i in range(len(samples.clients))], together):
        yield group, [batch.part(group) for batch in drawn[:steps]]


def by_passes(samples: Samples, number: int, together: int) -> Iterator[Turn]:
    """Turns of at most ``together`` clients of ``samples`` with ``number`` passes over their samples (see
    ``Samples.epochs``)."""
    for _, group in _alike(samples.steps(number), together):
        yield group, samples.epochs_together(group, number)


def descend(
    network: Network, work: Callable[[Tensor, Iterable[Batch]], Tensor], turns: Iterable[Turn], out: Tensor
) -> Tensor:
    """Let ``work`` fill the rows of ``out`` (n, d) of every turn; returns the clients' losses (n,) that it returns."""
    losses = torch.empty(len(out), dtype=torch.float64, device=out.device)

    def take(turn: Turn) -> None:
        who, batches = turn
        if len(who) == who[-1] - who[0] + 1:  # neighbours
            rows = slice(who[0], who[-1] + 1)
            losses[rows] = work(out[rows], batches)
        else:
            own, index = out.new_empty(len(who), out.shape[1]), torch.tensor(who, device=out.device)
            losses.index_copy_(0, index, work(own, batches))
            out.index_copy_(0, index, own)

    network.each(take, turns)
    return losses


def _alike(steps: Sequence[int], together: int) -> Iterator[tuple[int, list[int]]]:
    """The numbers that occur, and where: at most ``together`` places at a time."""
    for number in sorted(set(steps)):
        places = [position for position, own in enumerate(steps) if own == number]
        for first in range(0, len(places), together):
            yield number, places[first : first + together]
