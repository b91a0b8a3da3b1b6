"""Inner products of long float32 vectors, exact to float64, and bounds on the vectors' distances at half the cost.

Both are computed by blocks of columns, which the threads of a run share.
"""

import math
from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.base.parallel import in_turn
from robustfl_bench.numerics.blocks import width

BLOCK = 4096  # columns of a block, at most
CACHED = 1 << 17  # entries of a block, which in float64 stay in the level-2 cache
STRIPS = 16  # partial sums over blocks, at most; each is computed by one thread
READING = 8  # multiplications that take as long as reading one number
LEAST_WORK = 1 << 24  # multiplications that make waking a thread worthwhile, about a millisecond
HALF_BLOCK = 512  # columns whose products are summed in float32
ERROR = 2 * (HALF_BLOCK + 4) * 2.0**-24  # bound on the error of such a squared distance, over the squared lengths
TINY = 2.0**-146  # largest error of a product that is too small for float32
LEAST_BOUNDED = 100  # rows; for fewer, float64 inner products are as cheap
SAMPLED = 16  # columns in which two rows differ unless they are equal or sparse

Array = NDArray[np.float64]


def cross_products(left: Tensor, right: Tensor) -> Tensor:
    """Inner products (a, b), float64, of the rows of ``left`` (a, d) and ``right`` (b, d).

    Products of float32 numbers are exact in float64, and their sums have a relative error of about 1e-16. Squared
    distances computed from the inner products then have an error of about 1e-16 times the squared lengths. For updates
    that differ by a millionth of their length, they are right to 1e-4; for a difference of 1e-8 of the length, they are
    rounding error only. Works on column blocks and never copies a whole matrix.
    """
    if left.device.type != "cpu":
        blocks = _on_a_gpu(left, right)
        return _added(left.new_zeros(len(left), len(right)).double(), ((a.double(), b.double().T) for a, b in blocks))
    a, b = left.detach().numpy(), right.detach().numpy()

    def products(columns: slice) -> Array:
        return a[:, columns].astype(np.float64) @ b[:, columns].astype(np.float64).T

    return torch.from_numpy(_summed(products, (len(a), len(b)), a.shape[1]))


def gram_matrix(*parts: Tensor) -> Tensor:
    """Inner products (n, n), float64, of all pairs among the rows of ``parts`` (n_i, d), one below the other.

    As ``cross_products``, at half the cost. Equal rows, which attackers often send, are computed once.
    """
    if parts[0].device.type != "cpu":
        blocks = (torch.cat(block).double() for block in _on_a_gpu(*parts))
        size = sum(map(len, parts))
        return _added(parts[0].new_zeros(size, size).double(), ((block, block.T) for block in blocks))
    chosen = [distinct(part) for part in parts]
    rows = [(part.detach().numpy(), _index(firsts)) for part, (firsts, _) in zip(parts, chosen, strict=True)]

    def products(columns: slice) -> Array:
        parts = [matrix[:, columns][firsts] for matrix, firsts in rows]
        block = np.concatenate(parts, dtype=np.float64) if len(parts) > 1 else parts[0].astype(np.float64, order="C")
        squares: Array = block @ block.T  # NumPy computes it as a symmetric product: half the work
        return squares

    ends = list(accumulate((len(firsts) for firsts, _ in chosen), initial=0))
    sums = _summed(products, (ends[-1], ends[-1]), parts[0].shape[1])
    places = [which + end for end, (_, which) in zip(ends, chosen, strict=False)]
    return _repeated(sums, np.concatenate(places) if len(places) > 1 else places[0])


def distance_bounds(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds, (n, n) float64 each, on the squared distances of the rows of a matrix.

    The products are computed in float32 and added up in float64. The rows are taken relative to a central row, so that
    the part common to all rows does not drown their differences. The bounds hold for every order of summation in
    float32. For matrices on a CPU.
    """
    firsts, which = distinct(rows)
    matrix, index = rows.detach().numpy(), _index(firsts)
    middle = _central_row(matrix)

    def products(columns: slice) -> Array:
        total = np.zeros((len(firsts), len(firsts)))
        for first in range(columns.start, columns.stop, HALF_BLOCK):
            part = slice(first, min(first + HALF_BLOCK, columns.stop))
            block = matrix[:, part][index] - middle[part]
            total += block @ block.T
        return total

    with np.errstate(over="ignore", invalid="ignore"):
        lower, upper = _bounds(_summed(products, (len(firsts), len(firsts)), matrix.shape[1]), matrix.shape[1])
    return _repeated(lower, which), _repeated(upper, which)


def _bounds(gram: Array, width: int) -> tuple[Array, Array]:
    """The bounds from float32 inner products (n, n) of rows with ``width`` columns; ``gram`` is overwritten."""
    errors = gram.diagonal()[:, None] + gram.diagonal()
    gram *= 2
    sq_dists = np.subtract(errors, gram, out=gram)
    errors *= ERROR
    errors += width * TINY
    upper = sq_dists + errors
    lower = np.subtract(sq_dists, errors, out=sq_dists)
    lower.clip(min=0, out=lower)
    unknown = ~np.isfinite(upper)  # squares beyond the range of float32
    lower[unknown], upper[unknown] = 0, np.inf
    for bound in (lower, upper):
        np.fill_diagonal(bound, 0)
    return lower, upper


def _central_row(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The row nearest to the medians of some columns, which no minority of the rows moves far."""
    sampled = matrix[:, :: max(1, matrix.shape[1] // HALF_BLOCK)].astype(np.float64)
    sampled -= np.median(sampled, axis=0)
    row: NDArray[np.float32] = matrix[np.vecdot(sampled, sampled).argmin()]
    return row


def row_squares(rows: Tensor) -> Tensor:
    """The squared lengths (n,), float64, of the rows of a matrix (n, d) on the CPU."""
    return sq_dists_from(rows, None)


def sq_dists_from(rows: Tensor, start: Tensor | None) -> Tensor:
    """The squared distances (n,), float64, of the rows of a matrix (n, d) on the CPU from ``start`` (d,), or from 0.

    They are computed from the differences, so a part common to the rows and ``start`` does not drown them.
    """
    matrix, origin = rows.detach().numpy(), None if start is None else start.detach().numpy()

    def squares(columns: slice) -> Array:
        block = matrix[:, columns].astype(np.float64)
        if origin is not None:
            block -= origin[columns]
        found: Array = np.vecdot(block, block)
        return found

    return torch.from_numpy(_summed(squares, (len(matrix),), matrix.shape[1]))


def distinct(rows: Tensor) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The index of the first of each set of equal rows of a matrix (n, d) on the CPU, and the set of each row, (n,).

    A row is compared with the last distinct row that agrees with it in a few columns. In sparse matrices, equal rows
    that are not neighbours may therefore count as different.
    """
    matrix = rows.detach().numpy()
    samples = np.ascontiguousarray(matrix[:, :: max(1, matrix.shape[1] // SAMPLED)])
    size = samples.shape[1] * samples.itemsize
    keys: list[bytes] = samples.view(f"V{size}")[:, 0].tolist() if size else [b""] * len(matrix)
    if len(set(keys)) == len(keys):
        return np.arange(len(keys)), np.arange(len(keys))
    alike: dict[bytes, int] = {}
    firsts: list[int] = []
    which = []
    for i, key in enumerate(keys):
        place = alike.get(key)
        if place is None or not (matrix[i] == matrix[firsts[place]]).all():
            place = alike[key] = len(firsts)
            firsts.append(i)
        which.append(place)
    return np.array(firsts, dtype=np.intp), np.array(which, dtype=np.intp)


def _index(firsts: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """An index of these rows; a slice, which needs no copy, if they are the first rows of the matrix."""
    return slice(len(firsts)) if firsts[-1] == len(firsts) - 1 else firsts


def _repeated(distinct: Array, which: NDArray[np.intp]) -> Tensor:
    """The values of pairs of distinct rows, repeated for all pairs of rows."""
    return torch.from_numpy(distinct if len(distinct) == len(which) else distinct[which[:, None], which])


def _summed(products: Callable[[slice], Array], shape: tuple[int, ...], width: int) -> Array:
    """The sum of ``products`` over the blocks of ``width`` columns, in the same order for any number of threads.

    Every thread adds up strips of neighbouring blocks. The strips are so few that their sums take no more memory than
    the vectors, and that each is worth waking a thread.
    """
    if width == 0:
        return products(slice(0))  # of a process that holds none of the columns
    work = width * (math.prod(shape) + READING * shape[0])
    strips = max(1, min(STRIPS, width // (2 * max(1, *shape)), work // LEAST_WORK))
    length = -(-width // strips)
    block = max(HALF_BLOCK, min(BLOCK, CACHED // max(1, shape[0])))
    if length == width <= block:
        return products(slice(0, width))

    def strip(start: int) -> Array:
        end = min(start + length, width)
        return _added_up(products(slice(first, min(first + block, end))) for first in range(start, end, block))

    return _added_up(in_turn(strip, range(0, width, length)))


def _added_up(parts: Iterator[Array]) -> Array:
    """The sum of arrays, in their order; the first is overwritten, and each is dropped once it is added."""
    total = next(parts)
    for part in parts:
        total += part
        del part
    return total


def _on_a_gpu(*parts: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The blocks of columns that a GPU processes at once."""
    step = min(width(part, BLOCK) for part in parts)
    return zip(*(part.split(step, dim=1) for part in parts), strict=True)


def _added(total: Tensor, factors: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    for left, right in factors:
        total.addmm_(left, right)
    return total
