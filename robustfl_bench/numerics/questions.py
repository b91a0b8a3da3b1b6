"""Questions of attackers to a rule: candidates for their rows beside the same honest updates.

What depends only on the honest updates is computed once: their Gram matrix, and every coordinate's sorted values.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.numerics.blocks import each_block
from robustfl_bench.numerics.inner_products import cross_products, distinct, gram_matrix, row_squares
from robustfl_bench.numerics.sorting import Rows, inserted, mean_of_rows
from robustfl_bench.numerics.updates import BLOCK, SMALLEST, Updates, finite_parts

GROUPS = 2  # distinct candidate rows to insert into the sorted honest ones; of more, all rows are sorted again
TOGETHER_GROUPS = 10  # the same for all questions at once
TOGETHER = 1 << 22  # inner products in the Gram matrices of the questions asked at once, 32 MiB
FEW = 64  # updates; the inner products of fewer are computed anew for a single question, as fast as shared ones
CACHED = 1 << 14  # numbers in a sorted row of all questions that are processed at once


class Questions:
    """k matrices of updates (n, d) that differ only in the rows of the attackers, one for each question to a rule.

    ``honest`` (h, d) are the updates that all matrices share, ``rows`` (k, b, d) the candidates, or (k, 1, d) if all
    attackers send the same. ``counts`` (n,) are the sample counts of the honest clients, then of the attackers.
    ``storage`` (n, d) may hold the honest updates in its first rows; the candidates are written below them.

    The questions are a sequence of ``Updates``. Each is valid until the next one is taken.
    """

    def __init__(self, honest: Updates, rows: Tensor, counts: Tensor, storage: Tensor | None = None) -> None:
        self.honest, self.rows, self.counts = honest, rows, counts
        self.n, self.d = len(counts), honest.d
        self._storage = storage

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Updates:
        if number >= len(self):
            raise IndexError(number)
        return _Asked(self, number)

    def __iter__(self) -> Iterator[Updates]:
        return (self[number] for number in range(len(self)))

    @cached_property
    def finite(self) -> list[bool]:
        """Whether the candidates of each question are finite; the others share nothing."""
        return finite_parts(self.rows)

    def split(self) -> "list[Questions]":
        """The questions in groups that can be asked at once: their Gram matrices fit in memory."""
        size = max(1, TOGETHER // self.n**2)
        if len(self) <= size:
            return [self]
        return [Questions(self.honest, rows, self.counts, self._storage) for rows in self.rows.split(size)]

    def matrix(self, number: int) -> Tensor:
        """The updates (n, d) of a question, valid until those of another are taken."""
        honest = self.honest
        if self._storage is None:
            self._storage = honest.matrix.new_empty(self.n, self.d)
            self._storage[: honest.n] = honest.matrix
        self._storage[honest.n :] = self.rows[number]
        return self._storage

    @property
    def attackers(self) -> int:
        """The number b of rows that differ."""
        return self.n - self.honest.n

    @cached_property
    def alike(self) -> bool:
        """Whether all attackers send the same, in every question."""
        return self.rows.shape[1] == 1

    @cached_property
    def grams(self) -> Tensor:
        """The Gram matrix of every question, (k, n, n) float64."""
        return self.joint_grams(self.rows[0, :0])

    def joint_grams(self, vectors: Tensor) -> Tensor:
        """Inner products of all pairs among the updates of every question followed by ``vectors`` (v, d), (k, n + v,
        n + v) float64."""
        h, n, b, (k, different, d) = self.honest.n, self.n, self.attackers, self.rows.shape
        candidates, size = self.rows.reshape(k * different, d), n + len(vectors)
        known = self.honest.joint_gram(vectors) if len(vectors) else self.honest.gram
        side = torch.cat([self.honest.cross(candidates), cross_products(vectors, candidates)])
        side = side.view(size - b, k, different).permute(1, 0, 2).expand(k, size - b, b)
        fixed = torch.cat([torch.arange(h), torch.arange(n, size)]).to(known.device)
        grams = known.new_empty(k, size, size)
        grams[:, fixed[:, None], fixed] = known
        grams[:, fixed, h:n] = side
        grams[:, h:n, fixed] = side.transpose(1, 2)
        grams[:, h:n, h:n] = self._corners()
        return grams

    def _corners(self) -> Tensor:
        """Inner products of the candidates of every question, (k, b, b), or (k, 1, 1) if they are alike."""
        if not self.alike:
            return torch.stack([gram_matrix(rows) for rows in self.rows])
        rows = self.rows[:, 0]
        squares = row_squares(rows) if rows.device.type == "cpu" else rows.double().square().sum(dim=1)
        return squares[:, None, None]

    @cached_property
    def sq_dists(self) -> Tensor:
        """Squared Euclidean distances of all pairs of updates, (k, n, n) float64, with zero diagonals."""
        squares = self.grams.diagonal(dim1=1, dim2=2)
        dists = (squares[:, :, None] + squares[:, None]).sub_(self.grams, alpha=2).clamp_(min=0)
        dists.diagonal(dim1=1, dim2=2).zero_()
        return dists

    def combine(self, weights: Tensor) -> Tensor:
        """The vectors (k, d) that combine the updates of every question with its ``weights`` (k, n)."""
        numbers, vectors = weights.numpy(force=True), torch.empty_like(self.rows[:, 0])
        sizes = np.abs(numbers)
        held = (sizes > SMALLEST) & (sizes < 1 / SMALLEST)
        plain = (held | (sizes == 0)).all(axis=1)
        if self.rows.device.type != "cpu" or self.d > BLOCK:
            plain[:] = False
        factors, few = numbers.astype(np.float32), 2 * held.sum(axis=1) < self.n
        with np.errstate(over="ignore", invalid="ignore"):
            for i in np.flatnonzero(plain).tolist():  # as Updates.combine, whose calls take longer than the product
                used = np.flatnonzero(held[i]) if few[i] else slice(None)
                vectors[i] = torch.from_numpy(factors[i, used] @ self.matrix(i).numpy()[used])
        fine = plain & vectors.isfinite().all(dim=1).numpy(force=True)
        for i in np.flatnonzero(~fine).tolist():
            vectors[i] = self[i].combine(weights[i]).vector
        return vectors

    def combine_alike(self, weights: Tensor) -> Tensor:
        """The vectors (k, d) that combine the updates of every question with the same ``weights`` (n,) float64."""
        h = self.honest.n
        base = self.honest.combine(weights[:h]).vector.double()
        if self.alike:
            return (base + weights[h:].sum() * self.rows[:, 0].double()).to(self.rows.dtype)
        return torch.stack([base + weights[h:] @ rows.double() for rows in self.rows]).to(self.rows.dtype)

    def sorted_means(self, first: int, last: int) -> Tensor:
        """``Updates.sorted_mean`` of every question, (k, d)."""
        if not self._insertable:
            return torch.stack([updates.sorted_mean(first, last) for updates in self])
        with np.errstate(over="ignore"):
            means = self._by_sorted_row(lambda rows: mean_of_rows(rows), first, last)
        fine = means.isfinite().all(dim=1)
        for number in (~fine).nonzero().flatten().tolist():  # the sums overflow
            means[number] = self[number].sorted_mean(first, last)
        return means

    def sorted_values(self, place: int) -> Tensor:
        """The value at index ``place`` of every coordinate's sorted values, in every question, (k, d)."""
        if not self._insertable:
            return torch.stack([updates.by_sorted_row(lambda rows: rows[place]) for updates in self])
        return self._by_sorted_row(lambda rows: rows[0], place, place + 1)

    @property
    def _insertable(self) -> bool:
        """Whether candidates are best inserted into the sorted honest values."""
        return self.rows.shape[1] <= TOGETHER_GROUPS and self.honest.ordered is not None

    def _by_sorted_row(self, reduce: Callable[[Rows], Any], first: int, last: int) -> Tensor:
        """Apply ``reduce`` to the rows from ``first`` up to ``last`` of the sorted values of all questions, (k, d)."""
        ordered, out = self.honest.ordered, torch.empty(len(self), self.d)
        assert ordered is not None
        *others, sent = self.rows.numpy().transpose(1, 0, 2)

        def fill(columns: slice) -> None:
            rows: Rows = ordered[:, columns]
            for row in others:
                rows = inserted(rows, row[:, columns], 1)
            rows = inserted(rows, sent[:, columns], self.attackers if self.alike else 1, first, last)
            out[:, columns] = torch.from_numpy(reduce(rows))

        each_block(fill, self.d, max(1, CACHED // len(self)))
        return out


class _Asked(Updates):
    """The updates of one question, which takes from the questions what they share."""

    def __init__(self, questions: Questions, number: int) -> None:
        super().__init__(questions.matrix(number), questions.counts)
        self._questions, self._number = questions, number
        self._above = questions.honest
        self._shares = (len(questions) > 1 or questions.n >= FEW) and questions.finite[number]

    @property
    def _begun(self) -> bool:
        return self._shares or super()._begun

    @cached_property
    def gram(self) -> Tensor:
        return self._questions.grams[self._number] if self._shares else super().gram

    def _by_sorted(self, reduce: Callable[[Any], Any]) -> Tensor:
        ordered = self._questions.honest.ordered if self._questions.finite[self._number] else None
        rows = self._questions.rows[self._number]
        firsts, which = distinct(rows) if ordered is not None else (np.empty(0), np.empty(0))
        if ordered is None or len(firsts) > GROUPS:
            return super()._by_sorted(reduce)
        known, sent, out = ordered, rows[firsts].numpy(), torch.empty(self.d)
        times = [self._questions.attackers] if len(rows) == 1 else np.bincount(which).tolist()

        def fill(columns: slice) -> None:
            values: Rows = known[:, columns]
            for value, count in zip(sent[:, columns], times, strict=True):
                values = inserted(values, value, count)
            with np.errstate(over="ignore", invalid="ignore"):
                out[columns] = torch.as_tensor(reduce(values))

        each_block(fill, self.d, BLOCK)
        return out
