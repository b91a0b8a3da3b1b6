"""Federations whose updates are too large for float32 in memory: in a file, or in bfloat16."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.numerics import in_bfloat16, on_disk
from robustfl_bench.numerics.network.gradients import chunks
from robustfl_bench.numerics.network.samples import Batch, Population, Samples
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.protocols.state import ModelState, Remembered
from robustfl_bench.train.stack import Stackable


class OnDisk(Stackable):
    """A federation whose updates are in files without a name in the folder of results, which end with the process."""

    def rows(self, n: int) -> Tensor:
        return on_disk.empty(n, self.network.dim, Path(self.settings.results_dir).expanduser())

    def trainings(self, round: int) -> list[Samples]:
        """None: gradients at the models of several runs would be in memory."""
        return []


TURNS = 8
"""The clients train in so many turns at most, each with rows in float32 of its own."""


class InBfloat16(Stackable):
    """A federation whose clients train a few at a time; their updates are rounded, and kept in bfloat16.

    The few are whole groups of clients whose gradients a CPU computes together, so these have the same bytes as with
    all clients at once.
    """

    @cached_property
    def buffer(self) -> Tensor:
        return in_bfloat16.empty(self.updates_per_round, self.network.dim, self.data.train_x.device)

    def train(
        self,
        population: Population,
        clients: list[int],
        ids: list[int],
        stream: str,
        model: ModelState,
        out: Tensor,
        memory: Remembered | None = None,
        work: np.ndarray | None = None,
    ) -> Updates:
        """As the base."""
        if not isinstance(out, in_bfloat16.Bfloat16Matrix) or not clients:
            return super().train(population, clients, ids, stream, model, out, memory, work)
        counts, losses = out.new_empty(2, len(clients), dtype=torch.float64)
        turns = list(self._turns(population.sizes[clients]))
        room = self.rows(max(few.stop - few.start for few in turns))
        for few in turns:
            rows = room[: few.stop - few.start]
            part = super().train(population, clients[few], ids[few], stream, model, rows, memory, work)
            assert part.losses is not None
            out[few], counts[few], losses[few] = part.matrix, part.counts, part.losses
        return Updates(out, counts, losses)

    def _turns(self, sizes: np.ndarray) -> Iterator[slice]:
        """The clients with these numbers of samples in at most TURNS slices."""
        drawn = tuple(np.minimum(sizes, self.settings.batch_size or sizes.max()).tolist())
        nothing = torch.empty(sum(drawn), 0)
        together = chunks(Batch(nothing, nothing, drawn), torch.empty(len(drawn), 0), self.network.chunk(nothing))
        first = last = 0
        for _, rows in together:
            last += len(rows)
            if (last - first) * TURNS >= len(drawn) or last == len(drawn):
                yield slice(first, last)
                first = last
