"""Inner products of long float32 vectors, exact to float64: by blocks of columns, which the threads of a run share."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.parallel import each

BLOCK = 4096  # columns: of 100 clients in float64 they stay in the level-2 and level-3 caches
STRIPS = 16  # sums of blocks, each by one thread, that are then added up
SAMPLED = 16  # columns in which rows differ unless they are equal, or sparse

Array = NDArray[np.float64]


def cross_products(left: Tensor, right: Tensor) -> Tensor:
    """Inner products (a, b), float64, of the rows of ``left`` (a, d) and ``right`` (b, d).

    Products of float32 numbers are exact in float64, and sums of them have a relative error of about 1e-16. So squared
    distances computed from them have an error of about 1e-16 times the squared lengths: updates that differ by a
    millionth of their length have distances right to 1e-4, and those that differ by 1e-8 of it have none. Works on
    column blocks and never copies a whole matrix.
    """
    if left.device.type != "cpu":
        blocks = zip(left.split(BLOCK, dim=1), right.split(BLOCK, dim=1), strict=True)
        return _added(left.new_zeros(len(left), len(right)).double(), ((a.double(), b.double().T) for a, b in blocks))
    a, b = left.detach().numpy(), right.detach().numpy()

    def products(columns: slice) -> Array:
        return a[:, columns].astype(np.float64) @ b[:, columns].astype(np.float64).T

    return torch.from_numpy(_summed(products, (len(a), len(b)), a.shape[1]))


def gram_matrix(*parts: Tensor) -> Tensor:
    """Inner products (n, n), float64, of all pairs among the rows of ``parts`` (n_i, d), one below the other.

    As ``cross_products``, at half the cost. Rows that are equal, as attackers often send them, are taken once.
    """
    if parts[0].device.type != "cpu":
        columns = zip(*(part.split(BLOCK, dim=1) for part in parts), strict=True)
        blocks = (torch.cat(block).double() for block in columns)
        size = sum(map(len, parts))
        return _added(parts[0].new_zeros(size, size).double(), ((block, block.T) for block in blocks))
    kept, places, total = [], [], 0
    for part in parts:
        firsts, which = distinct(part)
        kept.append((part.detach().numpy(), slice(len(firsts)) if firsts[-1] == len(firsts) - 1 else firsts))
        places.append(which + total)
        total += len(firsts)

    def products(columns: slice) -> Array:
        block = np.concatenate([rows[:, columns][chosen] for rows, chosen in kept], dtype=np.float64)
        squares: Array = block @ block.T  # NumPy makes a symmetric product of it: half the work
        return squares

    sums, index = _summed(products, (total, total), parts[0].shape[1]), np.concatenate(places)
    return torch.from_numpy(sums if total == len(index) else sums[np.ix_(index, index)])


def row_squares(rows: Tensor) -> Tensor:
    """The squared lengths (n,), float64, of the rows of a matrix (n, d) on the CPU."""

    def square(row: NDArray[np.float32]) -> float:
        blocks = (row[start : start + BLOCK].astype(np.float64) for start in range(0, len(row), BLOCK))
        return sum(float(block @ block) for block in blocks)

    return torch.tensor(each(square, rows.detach().numpy()), dtype=torch.float64)


def distinct(rows: Tensor) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first of each set of equal rows of a matrix (n, d) on the CPU, and which of those each row equals, (n,).

    Rows are compared with the last one that is like them in a few columns: where most numbers are zero, equal rows
    apart from each other may count as different.
    """
    matrix = rows.detach().numpy()
    alike: dict[bytes, int] = {}
    firsts: list[int] = []
    which = np.empty(len(matrix), dtype=np.intp)
    for i, sample in enumerate(np.ascontiguousarray(matrix[:, :: max(1, matrix.shape[1] // SAMPLED)])):
        place = alike.get(key := sample.tobytes())
        if place is None or not np.array_equal(matrix[i], matrix[firsts[place]]):
            place = alike[key] = len(firsts)
            firsts.append(i)
        which[i] = place
    return np.array(firsts, dtype=np.intp), which


def _summed(products: Callable[[slice], Array], shape: tuple[int, int], width: int) -> Array:
    """The sum of ``products`` over the blocks of so many columns, in an order that is the same for any threads.

    Every thread adds up strips of neighbouring blocks, so few that their sums take no more room than the vectors.
    """
    strips = min(STRIPS, max(1, width // max(BLOCK, *shape)))
    length = -(-width // (strips * BLOCK)) * BLOCK

    def strip(start: int) -> Array:
        end, total = min(start + length, width), np.zeros(shape)
        for first in range(start, end, BLOCK):
            total += products(slice(first, min(first + BLOCK, end)))
        return total

    total = np.zeros(shape)
    for part in each(strip, range(0, width, length)):
        total += part
    return total


def _added(total: Tensor, factors: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    for left, right in factors:
        total.addmm_(left, right)
    return total
