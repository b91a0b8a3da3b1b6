"""Where the columns of a round's updates are: all in this process, or a part of them in each of several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError


@dataclass(frozen=True)
class Place:
    """The columns ``start`` up to, not including, ``stop`` of vectors (d,), and how sums over all columns are made.

    ``add_up`` adds a tensor of this process to those of the processes that hold the other columns, and gives each
    process the same sum. It is None if all columns are here.
    """

    d: int
    start: int
    stop: int
    add_up: Callable[[Tensor], Tensor] | None = None

    @property
    def whole(self) -> bool:
        """Whether all columns are here."""
        return self.add_up is None

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum of the tensors that all places have computed from their columns."""
        return numbers if self.add_up is None else self.add_up(numbers)

    def norm(self, norms: Tensor) -> Tensor:
        """The Euclidean norms of whole vectors, from the ``norms`` of the parts that are here."""
        return norms if self.add_up is None else self.add_up(norms.square()).sqrt()

    def unit(self, vector: Tensor) -> Tensor:
        """The part of a vector that is here, for the vector at length 1; zeros stay zeros."""
        length = self.norm(torch.linalg.vector_norm(vector))
        return vector / length if length > 0 else vector

    def share(self, vectors: Tensor) -> Tensor:
        """The columns that are here of whole vectors (..., d)."""
        return vectors[..., self.start : self.stop]

    def split(self, sizes: Sequence[int]) -> list[tuple["Place", slice]]:
        """The places of consecutive parts of the vectors with these ``sizes``, each with the columns, counted from
        ``start``, that are here."""
        parts, first = [], 0
        for size in sizes:
            start, stop = (min(max(end, self.start), self.stop) for end in (first, first + size))
            parts.append(
                (Place(size, start - first, stop - first, self.add_up), slice(start - self.start, stop - self.start))
            )
            first += size
        return parts

    def chosen(self, columns: Tensor) -> tuple["Place", Tensor]:
        """The place of vectors of the chosen ``columns`` (k,) int64, and the index of those that are here."""
        if self.whole:
            return Place(len(columns), 0, len(columns)), columns
        here = columns[(columns >= self.start) & (columns < self.stop)] - self.start
        return Place(len(columns), 0, len(here), self.add_up), here

    def kth_smallest(self, rows: Tensor, k: int) -> Tensor:
        """The k-th smallest number (n, 1), counted from 1, of each of the rows (n, d) of numbers that are not negative.
        The rows may be reordered.

        Over several places, the bits of the number are found one by one: a float32 that is not negative is the larger,
        the larger the integer with the same bits.
        """
        if self.whole and rows.device.type != "cpu":
            return rows.kthvalue(k, dim=1, keepdim=True).values
        if self.whole:
            rows.numpy().partition(k - 1, axis=1)  # with AVX-512 or AVX2: 2 to 3 times faster than kthvalue
            return rows[:, k - 1 : k]
        ordered = rows.sort(dim=1).values.view(torch.int32)
        found = torch.zeros(len(rows), 1, dtype=torch.int32, device=rows.device)
        for bit in range(30, -1, -1):
            tried = found + (1 << bit)
            below = self.sum(torch.searchsorted(ordered, tried).double())
            found = torch.where(below < k, tried, found)
        return found.view(torch.float32)


def require_whole(place: Place) -> None:
    """Raise ConfigError if a part of the columns is elsewhere."""
    if not place.whole:
        raise ConfigError(
            "whole updates are needed, but these are cut into columns over several processes; a rule that treats "
            "every column alike reads updates.columns, others updates.gram, .norms, .cross() and .combine()"
        )
