"""One round as one matrix: the updates of all clients, their lazy Gram matrix, and linear combinations of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.base.parallel import each
from robustfl_bench.numerics.blocks import each_block, width
from robustfl_bench.numerics.inner_products import (
    LEAST_BOUNDED,
    cross_products,
    distance_bounds,
    gram_matrix,
    row_squares,
    sq_dists_from,
)
from robustfl_bench.numerics.places import Place, require_whole
from robustfl_bench.numerics.sorting import NETWORK, mean_of_rows, sorted_rows, transposed

BLOCK = 16384  # columns per CPU thread for work that reads a block once
WORTH = 1 << 22  # numbers; a single thread reads fewer faster than a second one wakes
CACHED = 4096  # columns per thread for work that reads a block twice
SORTED = 1 << 19  # numbers per thread to sort at a time; with fewer, threads mostly wait for the interpreter
CACHED_NUMBERS = 1 << 17  # of a block, per thread, that is written and read again
KEPT = 1 << 25  # sorted numbers that are kept for further questions, 128 MiB
SMALLEST = 1e-30  # weight; products of smaller ones with float32 numbers can leave the range of float32
LARGEST = 1 / SMALLEST
MANY = 512  # updates; matrices (n, n) of more are changed in place, as another would take much memory


Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Aggregate:
    """The result of a rule.

    ``vector`` (d,) is the aggregated update. ``weights`` (n,) float64 are the clients' coefficients if the vector is a
    linear combination of their updates, else None. ``accepted`` (n,) bool marks the clients that the rule accepted, if
    these are not simply the clients with a nonzero weight (BOBA averages projections of the accepted updates onto a
    subspace spanned by others). ``memory`` is the rule's state for the next round. ``skipped`` says that the server
    makes no step: its model, what its optimizer remembers, and its last aggregate stay.

        >>> import torch
        >>> import robustfl_bench as rb
        >>> class Momentum(rb.Aggregator):
        ...     def aggregate(self, updates, server):
        ...         velocity = 0.9 * server.memory.get("velocity", 0.0) + updates.mean
        ...         return rb.Aggregate(velocity, memory={"velocity": velocity})
        >>> Momentum()(torch.tensor([[1.0, 0.0], [3.0, 2.0]]))
        tensor([2., 1.])
    """

    vector: Tensor
    weights: Tensor | None = None
    accepted: Tensor | None = None
    memory: dict[str, Tensor] | None = None
    skipped: bool = False


def by_columns(
    work: Callable[[Tensor], Tensor],
    rows: Tensor,
    block: int = BLOCK,
    dtype: torch.dtype | None = None,
    made: tuple[int, ...] = (),
) -> Tensor:
    """The results (*made, k) of ``work`` on blocks of columns (n, k) of the rows (n, d), put together: (*made, d).

    The threads of a run share the blocks. Results are stored as ``dtype``, by default that of the rows.
    """
    step, dtype = width(rows, block), dtype or rows.dtype
    if rows.shape[1] <= step:
        return work(rows).to(dtype).contiguous()
    out = torch.empty(*made, rows.shape[1], dtype=dtype, device=rows.device)

    def fill(columns: slice) -> None:
        out[..., columns] = work(rows[:, columns])

    each_block(fill, rows.shape[1], step)
    return out


def _times(factors: NDArray[np.float32], block: Tensor) -> Tensor:
    """``factors @ block`` for factors (..., n) and a block (n, k); on a CPU by NumPy's BLAS, which is faster."""
    if block.device.type != "cpu":
        return torch.from_numpy(factors).to(block.device) @ block
    with np.errstate(over="ignore", invalid="ignore"):
        return torch.from_numpy(factors @ block.numpy())


def _worth(rows: int) -> int:
    """The number of columns, of this many rows, for which it is worth waking a thread that reads them once."""
    return max(BLOCK, WORTH // max(1, rows))


def _weighted_sum(factors: NDArray[np.float32], rows: Tensor, count: int) -> Tensor:
    """``factors @ rows`` (d,) of the rows (n, d), of which ``count`` are read."""
    block = _worth(count)
    if rows.shape[1] <= block and rows.device.type == "cpu":
        return _times(factors, rows)
    return by_columns(partial(_times, factors), rows, block)


def all_finite(numbers: Tensor) -> bool:
    """Whether no number is infinite or nan. Their sum, or that of their squares, usually shows this, in a tenth of the
    time."""
    if numbers.dim() == 1 and numbers.device.type == "cpu":
        values = numbers.numpy()
        with np.errstate(over="ignore", invalid="ignore"):
            squares = values.dot(values)
        return math.isfinite(squares) or bool(np.isfinite(values).all())
    return math.isfinite(numbers.sum()) or bool(numbers.isfinite().all())


def finite_parts(stack: Tensor) -> list[bool]:
    """Whether each of the k parts of a stack (k, ...) is finite."""
    if all_finite(stack):
        return [True] * len(stack)
    fine: list[bool] = stack.isfinite().flatten(1).all(dim=1).tolist()
    return fine


def mean_row(rows: Tensor) -> Tensor:
    """Mean (d,) of the rows (n, d), also if their sum overflows."""
    mean = _weighted_sum(np.ones(len(rows), dtype=np.float32), rows, len(rows)).div_(len(rows))
    return mean if all_finite(mean) else rows.double().mean(dim=0).to(rows.dtype)


class Updates:
    """The updates of n clients in one round; expensive quantities are computed on first access.

    ``matrix`` (n, d) float32 has one client per row and is never written to. ``counts`` (n,) float64 are sample counts.
    ``losses`` (n,) float64 are the clients' mean training losses at the received model, or None.

    Several processes can share the columns: ``matrix`` then has those that are at the ``place``, and vectors (d,) that
    go in or come out have the same columns. Norms, inner products and distances are those of whole updates.

        >>> import torch
        >>> import robustfl_bench as rb
        >>> updates = rb.Updates(torch.tensor([[3.0, 4.0], [3.0, 0.0]]))
        >>> updates.norms.tolist(), updates.sq_dists.tolist()
        ([5.0, 3.0], [[0.0, 16.0], [16.0, 0.0]])
        >>> updates.combine(torch.tensor([0.5, 0.5])).vector
        tensor([3., 2.])
    """

    def __init__(
        self, matrix: Tensor, counts: Tensor | None = None, losses: Tensor | None = None, place: Place | None = None
    ) -> None:
        self.n, width = matrix.shape
        self.d = width if place is None else place.d
        self.device = matrix.device
        if place is not None:
            self.place = place
        if counts is not None:
            self.counts = counts
        self.losses = losses
        self._matrix: Tensor | None = matrix
        self._source: tuple[Updates, Tensor] | None = None
        self._mixed: tuple[Updates, Tensor] | None = None
        self._above: Updates | None = None

    @cached_property
    def counts(self) -> Tensor:
        if self._mixed is not None:
            before, mixing = self._mixed
            return (mixing != 0).to(before.counts) @ before.counts
        return torch.ones(self.n, dtype=torch.float64, device=self.device)

    @cached_property
    def place(self) -> Place:
        return Place(self.d, 0, self.d)

    @property
    def matrix(self) -> Tensor:
        """The (n, d) float32 matrix, one client per row. Raises ConfigError if a part of the columns is elsewhere."""
        require_whole(self.place)
        return self.columns

    @property
    def columns(self) -> Tensor:
        """The columns of the matrix that are in this process, by default all, for work that treats every column
        alike."""
        if self._matrix is None:
            assert self._source is not None
            source, mixing = self._source
            shares = mixing.detach().cpu().numpy()
            if self._grouped and self.device.type == "cpu":
                mixed = _group_sums(shares, source.columns)
            elif self.device.type == "cpu" and _are_scales(shares):
                mixed = _scaled(shares.diagonal().astype(np.float32), source.columns)
            else:
                mixed = by_columns(partial(_times, shares.astype(np.float32)), source.columns, made=(self.n,))
            tiny, finite = (shares != 0) & (np.abs(shares) <= SMALLEST), all_finite(mixed)
            if not finite or tiny.any():
                rows = torch.from_numpy(tiny.any(axis=1) | (not finite)).to(self.device)
                mixed[rows] = (mixing[rows] @ source.columns.double()).to(mixed.dtype)
            self._matrix = mixed
        return self._matrix

    @property
    def _begun(self) -> bool:
        """Whether the Gram matrix is known, or one from which it is computed: that of the rows before others were
        appended, or that of the rows that are combined."""
        above, source = self._above, self._source
        known = "gram" in self.__dict__ or (above is not None and "gram" in above.__dict__)
        return known or (source is not None and source[0]._begun)

    @property
    def products_unknown(self) -> bool:
        """Whether these are all columns of rows on a CPU, of which no inner products are known."""
        here = self.device.type == "cpu" and self.place.add_up is None
        return here and self._source is None and not self._begun

    @cached_property
    def _grouped(self) -> bool:
        """Whether these updates combine disjoint groups of clients, and are fewer than the clients."""
        return self._source is not None and _are_groups(self._source[1].detach().cpu().numpy())

    @cached_property
    def gram(self) -> Tensor:
        """Inner products of all pairs of updates, (n, n) float64."""
        if self._source is not None and not (self._grouped and not self._source[0]._begun):
            source, mixing = self._source
            return mixing @ source.gram @ mixing.T
        if self._above is not None and self._begun:
            below = self.columns[self._above.n :]
            side, corner = self._above.cross(below), self.place.sum(gram_matrix(below))
            return torch.cat([torch.cat([self._above.gram, side], 1), torch.cat([side.T, corner], 1)])
        return self.place.sum(gram_matrix(self.columns))

    @cached_property
    def sq_dists(self) -> Tensor:
        """Squared Euclidean distances of all pairs of updates, (n, n) float64, with a zero diagonal.

        Their error is about 1e-16 times the squared lengths (see ``cross_products``).
        """
        if self.device.type != "cpu" or self.n > MANY:
            squares = self.gram.diagonal()
            return (squares[:, None] + squares).sub_(self.gram, alpha=2).clamp_(min=0).fill_diagonal_(0)
        gram = self.gram.numpy()
        dists = gram.diagonal()[:, None] + gram.diagonal()
        dists -= 2 * gram
        np.maximum(dists, 0, out=dists).reshape(-1)[:: self.n + 1] = 0
        return torch.from_numpy(dists)

    @cached_property
    def sq_dist_bounds(self) -> tuple[Tensor, Tensor] | None:
        """Lower and upper bounds of ``sq_dists``, (n, n) float64 each; None if ``sq_dists`` itself is as cheap."""
        few = self.n < LEAST_BOUNDED or self.device.type != "cpu" or not self.place.whole
        if few or self._begun or (self._source is not None and not self._grouped):
            return None
        return distance_bounds(self.columns)

    @cached_property
    def norms(self) -> Tensor:
        """Euclidean norms, (n,) float64."""
        return self.squares.sqrt()

    @cached_property
    def squares(self) -> Tensor:
        """Squared Euclidean norms, (n,) float64; the Gram matrix is not computed for them."""
        if self._begun or self._source is not None or self.device.type != "cpu":
            return self.gram.diagonal().clamp(min=0)
        return self.place.sum(row_squares(self.columns))

    def sq_dists_from(self, start: Tensor | None) -> Tensor:
        """Squared Euclidean distances (n,), float64, from ``start`` (d,), or from 0; without the Gram matrix if
        possible."""
        if start is None:
            return self.squares
        if self._source is None and self.device.type == "cpu":
            return self.place.sum(sq_dists_from(self.columns, start))
        joint = self.joint_gram(start[None])
        squares, products = joint.diagonal(), joint[: self.n, self.n]
        return (squares[: self.n] - 2 * products + squares[self.n]).clamp_(min=0)

    @cached_property
    def mean(self) -> Tensor:
        """The unweighted mean, (d,)."""
        return mean_row(self.columns)

    @cached_property
    def std(self) -> Tensor:
        """Standard deviation per coordinate, (d,), with n - 1 in the denominator; 0 for a single update."""
        if self.n < 2:
            return torch.zeros_like(self.mean)
        std = self._std(torch.float32)
        return std if 1e-15 < float(std.max()) < 1e15 else self._std(torch.float64)  # squares leave float32's range

    def _std(self, dtype: torch.dtype) -> Tensor:
        def squares(block: Tensor) -> Tensor:
            block = block.to(dtype)
            return (block - block.mean(dim=0)).square_().sum(dim=0)

        return (by_columns(squares, self.columns, CACHED, dtype) / (self.n - 1)).sqrt_().float()

    @cached_property
    def votes(self) -> Tensor:
        """The sum of the clients' signs per coordinate, (d,) float32, integers in [-n, n]; zeros count 0."""
        ones = np.ones(self.n, dtype=np.float32)
        return by_columns(lambda block: _times(ones, block.sign()), self.columns)

    def cross(self, vectors: Tensor) -> Tensor:
        """Inner products (n, k), float64, of the updates with the rows of ``vectors`` (k, d)."""
        if self._source is not None:
            source, mixing = self._source
            return mixing @ source.cross(vectors)
        return self.place.sum(cross_products(self.columns, vectors))

    def joint_gram(self, vectors: Tensor) -> Tensor:
        """Inner products of all pairs among the updates followed by ``vectors`` (k, d): (n + k, n + k) float64.

        Takes one pass over the matrix and little more time than the Gram matrix alone, which is kept too.
        """
        if self._source is None and not self._begun:
            joint = self.place.sum(gram_matrix(self.columns, vectors))
            self.__dict__["gram"] = joint[: self.n, : self.n]
            return joint
        cross = self.cross(vectors)
        own = self.place.sum(gram_matrix(vectors))
        return torch.cat([torch.cat([self.gram, cross], dim=1), torch.cat([cross.T, own], dim=1)])

    def combine(self, weights: Tensor | Numbers, accepted: Tensor | None = None) -> Aggregate:
        """The aggregate ``weights @ matrix`` for (n,) weights; a zero weight leaves a client out entirely.

        The weights may be a tensor, an array or a list of numbers.
        """
        if isinstance(weights, np.ndarray) and weights.dtype == np.float64 and self.device.type == "cpu":
            weights = torch.from_numpy(weights)
        else:
            weights = torch.as_tensor(weights, dtype=torch.float64, device=self.device)
        if self._source is None:
            return Aggregate(self._product(weights), weights, accepted)
        source, mixing = self._source
        weights_there, accepted = weights @ mixing, None if accepted is None else mixing[accepted].any(dim=0)
        if self._matrix is None:
            return source.combine(weights_there, accepted)
        return Aggregate(self._product(weights), weights_there, accepted)

    def _product(self, weights: Tensor) -> Tensor:
        """``weights @ matrix``, (d,) float32, for weights of all magnitudes.

        In float32, tiny updates with huge weights would overflow, huge updates with tiny weights would vanish, and
        partial sums can overflow. Such summands are added in float64.
        """
        numbers, rows = weights.detach().cpu().numpy(), self.columns
        sizes = np.abs(numbers)
        held = (sizes > SMALLEST) & (sizes < LARGEST)
        count = int(np.count_nonzero(held))
        if count == 1 and self.device.type == "cpu":
            only = int(held.argmax())
            with np.errstate(over="ignore", invalid="ignore"):
                row = rows[only].numpy() * np.float32(numbers[only])
            vector = torch.from_numpy(row + np.float32(0))  # as a sum: no negative zero
        elif 2 * count < self.n:  # reading few rows is faster than a product over all
            used = held.nonzero()[0]
            factors, index = numbers[used].astype(np.float32), torch.from_numpy(used).to(self.device)
            vector = by_columns(lambda block: _times(factors, block.index_select(0, index)), rows, _worth(count))
        else:
            factors = (numbers if count == self.n else np.where(held, numbers, 0)).astype(np.float32)
            vector = _weighted_sum(factors, rows, self.n)
        alone = bool(np.count_nonzero(numbers) > count)  # too small or too large weights, or nan, which propagates
        if not all_finite(vector):
            vector, alone, held = torch.zeros_like(vector), bool(sizes.any()), np.zeros_like(held)
        if alone:
            total = vector.double()
            for client in np.flatnonzero((sizes != 0) & ~held).tolist():
                total.add_(rows[client].double(), alpha=float(numbers[client]))
            vector = total.to(rows.dtype)
        return vector

    def mix(self, mixing: Tensor) -> "Updates":
        """The n' updates ``mixing @ matrix`` for a (n', n) float64 matrix; every pre-aggregation returns such updates.

        The sample count of an update is the sum over all clients in it. Gram matrix and aggregates are computed from
        those of the source; the mixed matrix is computed only on access.
        """
        mixed = Updates.__new__(Updates)
        mixed.n, mixed.d, mixed.device, mixed.place = len(mixing), self.d, self.device, self.place
        mixed._mixed = self, mixing
        mixed.losses = None if self.losses is None else mixing @ self.losses
        source, before = self._source if self._source is not None and self._matrix is None else (self, None)
        mixed._above = None
        mixed._matrix, mixed._source = None, (source, mixing if before is None else mixing @ before)
        return mixed

    def append(self, rows: Tensor, counts: Tensor, storage: Tensor) -> "Updates":
        """These updates followed by ``rows`` (b, d) of clients with ``counts`` (b,) samples.

        ``storage`` (n + b, d) holds this matrix in its first n rows; ``rows`` are written into the others.
        """
        storage[self.n :] = rows
        joined = Updates(storage, torch.cat([self.counts, counts]), place=self.place)
        joined._above = self
        return joined

    def of_clients(self, clients: Any) -> "Updates":
        """The updates of these clients (m,), an index of the rows."""
        return Updates(self.columns[clients], self.counts[clients], place=self.place)

    def at(self, columns: Tensor) -> "Updates":
        """The updates on these columns (k,) int64, counted over whole updates."""
        place, here = self.place.chosen(columns)
        return Updates(self.columns.index_select(1, here), self.counts, place=place)

    def layers(self, sizes: Sequence[int]) -> list[tuple["Updates", slice]]:
        """The updates on consecutive parts of their columns with these ``sizes``, each with its columns in a vector."""
        return [
            (Updates(self.columns[:, here], self.counts, place=place), here) for place, here in self.place.split(sizes)
        ]

    def like(self, columns: Tensor) -> "Updates":
        """Updates at the same place with other numbers (n', d)."""
        return Updates(columns, place=self.place)

    def sorted_mean(self, first: int, last: int) -> Tensor:
        """The mean (d,) of every coordinate's sorted values from index ``first`` up to, not including, ``last``."""
        # Trimmed by position, because subtracting the extremes from a sum would leave their rounding errors.
        mean = self.by_sorted_row(lambda rows: _mean(rows[first:last]))
        if all_finite(mean):
            return mean
        return self.by_sorted_column(lambda values: _in_float64(values[:, first:last]).mean(1))  # the sums overflow

    def by_sorted_row(self, reduce: Callable[[Any], Any]) -> Tensor:
        """Apply ``reduce`` to every coordinate's sorted values; (d,).

        ``reduce`` receives blocks of n rows (columns,), the smallest values first, NumPy arrays on the CPU and tensors
        on a GPU, and returns one value per column. Use only operations that both have, on single rows.
        """
        return self._by_sorted(reduce)

    def by_sorted_column(self, reduce: Callable[[Any], Any]) -> Tensor:
        """As ``by_sorted_row``, but ``reduce`` receives blocks (columns, n) sorted along the clients.

        It returns one value per row. Use only operations that arrays and tensors have (indexing, ``.mean(1)``,
        ``.sum(1)``).
        """
        return self._by_sorted(lambda rows: reduce(_as_columns(rows)))

    def _by_sorted(self, reduce: Callable[[Any], Any]) -> Tensor:
        def work(block: Tensor) -> Tensor:
            with np.errstate(over="ignore", invalid="ignore"):
                return torch.as_tensor(reduce(_sorted(block)))

        return by_columns(work, self.columns, self._sorted_at_once)

    @property
    def _sorted_at_once(self) -> int:
        """The number of columns to sort at once on a CPU."""
        return BLOCK if self.n <= NETWORK else max(1, SORTED // self.n)

    @cached_property
    def ordered(self) -> NDArray[np.float32] | None:
        """Every coordinate's values in ascending order, n rows (d,), kept for later use; None on a GPU and for very
        many numbers."""
        if self.device.type != "cpu" or not 0 < self.columns.numel() <= KEPT:
            return None
        ordered = np.empty((self.n, self.columns.shape[1]), dtype=np.float32)

        def fill(columns: slice) -> None:
            for row, values in zip(ordered, _sorted(self.columns[:, columns]), strict=True):
                row[columns] = values

        each_block(fill, self.columns.shape[1], self._sorted_at_once)
        return ordered


def _are_groups(mixing: Numbers) -> bool:
    """Whether no client is in two rows of ``mixing`` (n', n), and n' < n."""
    return len(mixing) < mixing.shape[1] and bool(np.bincount(mixing.nonzero()[1], minlength=1).max() <= 1)


def _are_scales(mixing: Numbers) -> bool:
    """Whether ``mixing`` (n', n) does no more than to stretch every row."""
    return len(mixing) == mixing.shape[1] and bool(np.count_nonzero(mixing) == np.count_nonzero(mixing.diagonal()))


def _group_sums(mixing: Numbers, rows: Tensor) -> Tensor:
    """``mixing @ rows`` for a sparse ``mixing`` (n', n); the threads of a run share the n' result rows.

    Of few numbers, all groups add a member in one call.
    """
    groups, members = np.nonzero(mixing)
    weights, turns = mixing[groups, members], np.arange(len(groups)) - np.searchsorted(groups, groups)
    first = turns == 0
    if rows.numel() <= CACHED_NUMBERS and np.count_nonzero(first) == len(mixing) and weights.min() > 0:
        out = rows.index_select(0, torch.from_numpy(members[first]))
        with np.errstate(over="ignore", invalid="ignore"):
            begun = out.numpy()
            begun += 0  # a sum has no negative zero
            begun *= weights[first].astype(begun.dtype)[:, None]
        for turn in range(1, int(turns.max()) + 1):
            for weight in sorted(set(weights[turns == turn].tolist())):
                some = (turns == turn) & (weights == weight)
                added = rows.index_select(0, torch.from_numpy(members[some]))
                out.index_add_(0, torch.from_numpy(groups[some]), added, alpha=weight)
        return out
    out = rows.new_zeros(len(mixing), rows.shape[1])

    def add_up(some: range) -> None:
        for group in some:
            for place in np.flatnonzero(groups == group).tolist():
                out[group].add_(rows[int(members[place])], alpha=float(weights[place]))

    share = max(1, WORTH * len(mixing) // rows.numel())  # number of groups for which it is worth waking a thread
    each(add_up, [range(start, min(start + share, len(mixing))) for start in range(0, len(mixing), share)])
    return out


def _scaled(factors: NDArray[np.float32], rows: Tensor) -> Tensor:
    """The rows (n, d) on the CPU times their factors (n,), to the bytes of the product with a diagonal matrix."""
    out, (n, d) = rows.new_empty(*rows.shape), rows.shape
    made, given, together = out.numpy(), rows.numpy(), max(1, CACHED_NUMBERS // max(1, d))

    def fill(first: int) -> None:
        some = slice(first, first + together)
        for start in range(0, d, CACHED_NUMBERS):
            columns = slice(start, start + CACHED_NUMBERS)
            block = made[some, columns]
            with np.errstate(over="ignore", invalid="ignore"):
                np.multiply(given[some, columns], factors[some, None], out=block)
            block += 0  # a sum has no negative zero

    each(fill, range(0, n, together))
    return out


def _sorted(block: Tensor) -> Any:
    """The sorted values of the columns, n rows (k,); NumPy arrays on the CPU."""
    return sorted_rows(block.numpy()) if block.device.type == "cpu" else block.T.contiguous().sort(dim=1).values.T


def _mean(rows: Any) -> Any:
    return rows.T.mean(1) if isinstance(rows, Tensor) else mean_of_rows(rows)


def _as_columns(rows: Any) -> Any:
    """Sorted rows as an array or a tensor (k, n), contiguous along the clients."""
    if isinstance(rows, Tensor | np.ndarray):
        return rows.T
    return transposed(rows)


def _in_float64(values: Any) -> Any:
    return values.double() if isinstance(values, Tensor) else values.astype(np.float64)
