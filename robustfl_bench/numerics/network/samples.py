"""Samples arranged client by client, and the batches drawn from them."""

import hashlib
import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from robustfl_bench.base import seeding
from robustfl_bench.numerics.network.augments import Augments


class Batch:
    """Samples of several clients, one client after the other; client i has ``sizes[i]`` rows of ``x`` and ``y``.

    With ``starts`` client i's samples are the rows of ``all_x`` and ``all_y`` from ``starts[i]`` on. If there are gaps
    between them, ``x`` and ``y`` are gathered on first access, so a caller that visits clients one at a time copies
    nothing.
    ``noise(i)`` is the seed of client i's dropout; None without dropout. A CPU uses other streams (``Network.noise``).
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        sizes: tuple[int, ...],
        starts: np.ndarray | None = None,
        noise: Callable[[int], int] | None = None,
    ) -> None:
        self.all_x, self.all_y, self.sizes, self.noise = x, y, sizes, noise
        if starts is None:
            self.x, self.y = x, y
        else:
            self.starts = starts

    @cached_property
    def starts(self) -> np.ndarray:
        return np.cumsum((0, *self.sizes))[:-1]

    @cached_property
    def x(self) -> Tensor:
        return self.all_x[self._index]

    @cached_property
    def y(self) -> Tensor:
        return self.all_y[self._index]

    def clients(self) -> list[tuple[Tensor, Tensor]]:
        """Every client's own ``x`` and ``y``, as views."""
        parts = [slice(start, start + size) for start, size in zip(self.starts.tolist(), self.sizes, strict=True)]
        return [(self.all_x[part], self.all_y[part]) for part in parts]

    def part(self, clients: Sequence[int]) -> "Batch":
        """The batch of the clients at these positions, without a copy."""
        if len(clients) == len(self.sizes):
            return self
        chosen, noise = list(clients), self.noise
        own = None if noise is None else lambda i: noise(chosen[i])
        return Batch(self.all_x, self.all_y, tuple(self.sizes[i] for i in chosen), self.starts[chosen], own)

    def runs(self) -> list[slice]:
        """The clients in runs of neighbours without gaps and with equal numbers of samples."""
        sizes = np.array(self.sizes)
        return _stretches(self._gaps | (sizes[1:] != sizes[:-1]))

    def pieces(self, length: int) -> list[slice]:
        """The rows of ``all_x`` that make up ``x``, in slices of at most ``length``."""
        ends = self.starts + self.sizes
        wholes = [(int(self.starts[run.start]), int(ends[run.stop - 1])) for run in _stretches(self._gaps)]
        return [slice(i, min(i + length, last)) for first, last in wholes for i in range(first, last, length)]

    @property
    def _gaps(self) -> np.ndarray:
        """Whether there is a gap between each client and the next, (n - 1,)."""
        gaps: np.ndarray = self.starts[1:] != (self.starts + self.sizes)[:-1]
        return gaps

    @cached_property
    def _index(self) -> slice | Tensor:
        """The rows of ``all_x`` that make up ``x``; without gaps a slice, which copies nothing."""
        if not self._gaps.any():
            return slice(int(self.starts[0]), int(self.starts[-1]) + self.sizes[-1])
        rows = [np.arange(start, start + size) for start, size in zip(self.starts, self.sizes, strict=True)]
        return moved(np.concatenate(rows), self.all_x.device)


def moved(array: np.ndarray, device: torch.device) -> Tensor:
    """The array as a tensor on the device; the host does not wait for the copy to a GPU."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def _stretches(cuts: np.ndarray) -> list[slice]:
    """Split the range of n items after the items where ``cuts`` (n - 1,) is true."""
    return [slice(first, last) for first, last in pairwise([0, *(np.flatnonzero(cuts) + 1).tolist(), len(cuts) + 1])]


_digests: MutableMapping[Tensor, bytes] = WeakTensorKeyDictionary()


def _digest(tensor: Tensor) -> bytes:
    """SHA-256 of a tensor's bytes on a CPU; computed once for a tensor that populations share."""
    if (known := _digests.get(tensor)) is None:
        known = _digests[tensor] = hashlib.sha256(np.ascontiguousarray(tensor.numpy()).data).digest()
    return known


class Population:
    """Clients and their samples: one tensor per quantity, indexed once, on the device.

    ``indices`` are the clients' sample indices; ``x`` (N, ...) and ``y`` (N,) hold only these samples, client by
    client.
    """

    def __init__(self, x: Tensor, y: Tensor, indices: Sequence[np.ndarray]) -> None:
        order = moved(np.concatenate(indices), x.device)
        self.x, self.y = x.index_select(0, order), y.index_select(0, order)
        self.sizes = np.array([len(part) for part in indices])
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])[:-1]

    def __len__(self) -> int:
        return len(self.sizes)

    def slice(self, client: int) -> slice:
        """Rows of one client."""
        return slice(int(self.starts[client]), int(self.starts[client] + self.sizes[client]))

    @cached_property
    def digests(self) -> tuple[bytes, bytes]:
        """SHA-256 of the clients' inputs, and of their labels; for samples on a CPU."""
        inputs = hashlib.sha256(self.sizes.tobytes() + _digest(self.x)).digest()
        return inputs, _digest(self.y)

    def batch(self, clients: Sequence[int]) -> Batch:
        """All samples of the clients at these positions."""
        starts = None if list(clients) == list(range(len(self))) else self.starts[list(clients)]
        return Batch(self.x, self.y, tuple(self.sizes[list(clients)].tolist()), starts)

    def thinned(self, clients: Sequence[int], limit: int) -> tuple[Tensor, Tensor]:
        """At most ``limit`` samples (x, y) of the clients at these positions, evenly spaced over all of their
        samples."""
        rows = np.concatenate([np.arange(self.starts[i], self.starts[i] + self.sizes[i]) for i in clients])
        index = moved(rows[:: -(-len(rows) // limit)], self.x.device)
        return self.x.index_select(0, index), self.y.index_select(0, index)

    def label_counts(self, num_classes: int) -> Tensor:
        """Samples per client and class, (n, c) int64 on the CPU."""
        owner = np.repeat(np.arange(len(self)), self.sizes)
        flat = owner * num_classes + self.y.cpu().numpy()
        return torch.from_numpy(np.bincount(flat, minlength=len(self) * num_classes).reshape(len(self), num_classes))


@dataclass(frozen=True)
class Samples:
    """The samples that the chosen clients of a population draw in one round.

    ``ids`` are the clients' numbers in the whole federation. They name the random streams, so a client draws the same
    batches whichever other clients take part. ``batch_size`` None means the whole local set. ``memory`` is the memory
    of the local update; it is changed in place. ``augmentation`` changes the drawn samples, once per round or per
    batch. ``work`` (N,) is the share of its local work that each client of the federation does; None for all of it.
    ``whose`` names clients that are only supposed, so that their ``draws`` tell nothing of those of the real ones.
    """

    population: Population
    clients: Sequence[int]
    ids: Sequence[int]
    seed: int
    stream: str
    round: int
    batch_size: int | None = None
    memory: dict[str, Tensor] = field(default_factory=dict)
    augmentation: Augments | None = None
    work: np.ndarray | None = None
    whose: str = ""

    @property
    def sizes(self) -> np.ndarray:
        """The clients' sample counts, (n,)."""
        return self.population.sizes[list(self.clients)]

    def full(self) -> Batch:
        """All samples of all chosen clients."""
        return self.population.batch(self.clients)

    def batch(self, step: int) -> Batch:
        """The batch of local step ``step``: ``batch_size`` samples per client without replacement, or all."""
        batch = self._drawn(step)
        if self.augmentation is not None:
            batch = self._all_augmented(batch, self.ids, step)
        batch.noise = self.noise(self.ids, step)
        return batch

    def draws(self, name: str, identity: int) -> np.random.Generator:
        """The random stream of what a client draws in a round beside its batches, such as its noise."""
        return seeding.generator(self.seed, self.stream + self.whose, self.round, name, identity)

    def noise(self, ids: Sequence[int], step: int) -> Callable[[int], int]:
        """The seeds of the clients' dropout in a step."""
        return lambda i: seeding.integer(self.seed, "noise", self.stream, self.round, ids[i], step)

    def _drawn(self, step: int) -> Batch:
        if self.batch_size is None:
            return self.full()
        rows, sizes = [], []
        for client, identity in zip(self.clients, self.ids, strict=True):
            start, size = self.population.starts[client], int(self.population.sizes[client])
            if size > self.batch_size:
                rng = seeding.generator(self.seed, self.stream, self.round, step, identity)
                rows.append(start + rng.choice(size, self.batch_size, replace=False, shuffle=False))
            else:
                rows.append(np.arange(start, start + size))
            sizes.append(min(size, self.batch_size))
        return self._take(np.concatenate(rows), np.array(sizes))

    def repeats(self, position: int, number: int) -> int:
        """How many of ``number`` local steps or passes a chosen client makes, at least one."""
        return number if self.work is None else max(1, math.ceil(self.work[self.ids[position]] * number))

    def epochs(self, position: int, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of ``number`` passes of a chosen client over its samples, in an order drawn for each pass:
        ``batch_size`` samples at a time, the last batch smaller, or all samples at once. A straggler makes fewer
        passes."""
        own, identity = self.population.slice(self.clients[position]), self.ids[position]
        x, y = self.population.x[own], self.population.y[own]
        if not self._augments_batches:
            x = self._augmented(x, identity)
        for step, index in enumerate(self._passes(position, number)):
            rows = slice(None) if index is None else moved(index, x.device)
            batch = self._augmented(x[rows], identity, step) if self._augments_batches else x[rows]
            yield batch, y[rows]

    def epochs_together(self, positions: Sequence[int], number: int) -> Iterator[Batch]:
        """As ``epochs``, for several clients with equal numbers of steps."""
        ids, own = [self.ids[i] for i in positions], self.full().part(positions)
        if self.augmentation is not None and not self._augments_batches:
            own = self._all_augmented(own, ids)
        starts, augments = own.starts.tolist(), self._augments_batches
        every = [np.arange(start, start + size) for start, size in zip(starts, own.sizes, strict=True)]
        for step, indices in enumerate(zip(*(self._passes(i, number) for i in positions), strict=True)):
            if all(index is None for index in indices):
                batch = Batch(own.all_x, own.all_y, own.sizes, own.starts)
            else:
                rows = [whole if index is None else index + start
                        for whole, index, start in zip(every, indices, starts, strict=True)]  # fmt: skip
                where = moved(np.concatenate(rows), own.all_x.device)
                drawn = own.all_x.index_select(0, where), own.all_y.index_select(0, where)
                batch = Batch(*drawn, tuple(map(len, rows)))
            if augments:
                batch = self._all_augmented(batch, ids, step)
            batch.noise = self.noise(ids, step)
            yield batch

    def steps(self, number: int) -> list[int]:
        """The number of steps of every chosen client in ``number`` passes."""
        width = self.batch_size or math.inf
        batches = [max(1, math.ceil(size / width)) for size in self.sizes.tolist()]
        return [self.repeats(position, number) * each for position, each in enumerate(batches)]

    @property
    def _augments_batches(self) -> bool:
        return self.augmentation is not None and self.augmentation.per == "batch"

    def _passes(self, position: int, number: int) -> Iterator[np.ndarray | None]:
        """The batches of a client's passes as indices of its samples; None for all samples."""
        size, identity = int(self.sizes[position]), self.ids[position]
        number = self.repeats(position, number)
        if self.batch_size is None or size <= self.batch_size:
            yield from [None] * number
            return
        for epoch in range(number):
            rng = seeding.generator(self.seed, self.stream, self.round, "epoch", epoch, identity)
            order = rng.permutation(size)
            yield from (order[first : first + self.batch_size] for first in range(0, size, self.batch_size))

    def _all_augmented(self, batch: Batch, ids: Sequence[int], *step: int) -> Batch:
        """The batch with the samples of all clients ``ids`` augmented."""
        parts = zip(batch.x.split(batch.sizes), ids, strict=True)
        return Batch(torch.cat([self._augmented(x, i, *step) for x, i in parts]), batch.y, batch.sizes)

    def _augmented(self, x: Tensor, identity: int, *step: int) -> Tensor:
        if self.augmentation is None:
            return x
        return self.augmentation(x, seeding.generator(self.seed, "augmentation", self.round, identity, *step))

    def _take(self, rows: np.ndarray, sizes: np.ndarray) -> Batch:
        index = moved(rows, self.population.x.device)
        drawn = self.population.x.index_select(0, index), self.population.y.index_select(0, index)
        return Batch(*drawn, tuple(sizes.tolist()))
