"""Where the updates of a round are: in memory as float32, in a file, or in memory as bfloat16."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.numerics import in_bfloat16, on_disk
from robustfl_bench.numerics.network.gradients import chunks
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.protocols.state import Remembered


def _place(tensor: Tensor) -> int | None:
    """Where the numbers of a tensor lie; None for one that stands for others, such as numbers in bfloat16."""
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return None


@dataclass(frozen=True, eq=False)
class InMemory:
    """The updates of a round, at most ``number`` with ``dim`` parameters each, as float32 in memory.

    With ``stacks``, gradients at the models of several runs may be in memory as well.
    """

    number: int
    dim: int
    device: torch.device

    stacks: ClassVar[bool] = True

    def rows(self, n: int) -> Tensor:
        """An uninitialised buffer for n updates, (n, d)."""
        return torch.empty(n, self.dim, device=self.device)

    @cached_property
    def buffer(self) -> Tensor:
        """A buffer for the updates of a round, reused in every round, (number, d)."""
        return self.rows(self.number)

    def apart(self, remembered: Mapping[str, Tensor]) -> Remembered:
        """What a part remembers, with copies of tensors that lie in the ``buffer``, which the next round overwrites."""
        place = _place(self.buffer) if "buffer" in self.__dict__ else None
        if place is None:
            return dict(remembered)
        return {name: value.clone() if _place(value) == place else value for name, value in remembered.items()}

    def train(
        self, out: Tensor, sizes: np.ndarray, network: Network, train: Callable[[slice, Tensor], Updates]
    ) -> Updates:
        """The updates of clients with ``sizes`` (n,) samples, in ``out`` (n, d), all of them trained at once.

        ``train`` computes those of some of the clients in rows of float32.
        """
        return train(slice(None), out)


@dataclass(frozen=True, eq=False)
class OnDisk(InMemory):
    """Updates in files without a name in a ``folder``, which end with the process."""

    folder: Path

    stacks: ClassVar[bool] = False

    def rows(self, n: int) -> Tensor:
        return on_disk.empty(n, self.dim, self.folder)


TURNS = 8
"""The clients train in so many turns at most, each with rows in float32 of its own."""


@dataclass(frozen=True, eq=False)
class InBfloat16(InMemory):
    """Updates of clients that train a few at a time, rounded to bfloat16.

    The few are whole groups of clients whose gradients a CPU computes together, so these have the same bytes as with
    all clients at once.
    """

    batch_size: int | None

    stacks: ClassVar[bool] = False

    @cached_property
    def buffer(self) -> Tensor:
        return in_bfloat16.empty(self.number, self.dim, self.device)

    def train(
        self, out: Tensor, sizes: np.ndarray, network: Network, train: Callable[[slice, Tensor], Updates]
    ) -> Updates:
        if not isinstance(out, in_bfloat16.Bfloat16Matrix) or not len(sizes):
            return train(slice(None), out)
        counts, losses = out.new_empty(2, len(sizes), dtype=torch.float64)
        turns = list(self._turns(sizes, network))
        room = self.rows(max(few.stop - few.start for few in turns))
        for few in turns:
            part = train(few, room[: few.stop - few.start])
            assert part.losses is not None
            out[few], counts[few], losses[few] = part.matrix, part.counts, part.losses
        return Updates(out, counts, losses)

    def _turns(self, sizes: np.ndarray, network: Network) -> Iterator[slice]:
        """The clients with these numbers of samples in at most TURNS slices."""
        drawn = tuple(np.minimum(sizes, self.batch_size or sizes.max()).tolist())
        nothing = torch.empty(sum(drawn), 0)
        together = chunks(Batch(nothing, nothing, drawn), torch.empty(len(drawn), 0), network.chunk(nothing))
        first = last = 0
        for _, rows in together:
            last += len(rows)
            if (last - first) * TURNS >= len(drawn) or last == len(drawn):
                yield slice(first, last)
                first = last
