"""Functions for rules that rank the clients and average the best of them."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.parallel import each
from robustfl_bench.numerics.blocks import width
from robustfl_bench.numerics.updates import Aggregate, Updates

SORTED = 1 << 18  # distances to sort at a time, which stay in the cache


def num_kept(rule: str, n: int, num_byzantine: int) -> int:
    """``n - f``, the number of clients that a rule tolerating f keeps; ConfigError unless that leaves one."""
    if n <= num_byzantine:
        raise ConfigError(f"{rule} needs n > f, got n={n}, f={num_byzantine}; lower num_byzantine_declared")
    return n - num_byzantine


def require_majority(rule: str, n: int, num_byzantine: int) -> None:
    """Raise ConfigError unless n > 2f, so that a value is left when f are dropped at either end."""
    if n <= 2 * num_byzantine:
        raise ConfigError(f"{rule} needs n > 2f, got n={n}, f={num_byzantine}; lower num_byzantine_declared")


def mean_of_lowest(updates: Updates, scores: Tensor, count: int) -> Aggregate:
    """Mean of the ``count`` updates of lowest score (n,); updates tied at the border share the remaining places.

    Taking the first of the tied updates would favour the honest clients, who come first.
    """
    last = scores.sort().values[count - 1]
    below, equal = scores < last, scores == last
    weights = below.double() + equal.double() * (count - below.sum()) / equal.sum()
    return updates.combine(weights / count)


def lowest(updates: Updates, scores: Callable[[Tensor], Tensor], count: int) -> Tensor:
    """The clients (count,) of lowest score, the first ones in a tie.

    ``scores`` maps squared distances (n, n) to scores (n,), none of which falls when a distance grows. Bounds on the
    distances, which cost half as much, are therefore enough if they settle which clients are lowest.
    """
    if (bounds := updates.sq_dist_bounds) is not None:
        least, most = (scores(bound) for bound in bounds)
        order = most.argsort(stable=True)
        if (most[order[:count]].max() < least[order[count:]]).all():
            return order[:count]
    return scores(updates.sq_dists).argsort(stable=True)[:count]


def nearest_sums(sq_dists: Tensor, others: int, squared: bool = True) -> Tensor:
    """Krum's scores (n,): sums of every client's ``others`` smallest squared distances to other clients, from all
    ``sq_dists`` (n, n); unless ``squared``, sums of the distances."""

    def sums(rows: slice) -> Tensor:
        dists = sq_dists[rows].clone()
        dists.diagonal(rows.start).fill_(math.inf)
        nearest = _sorted(dists)[:, :others]
        return (nearest if squared else nearest.sqrt()).sum(dim=1)

    return by_rows(sums, sq_dists, sq_dists.new_empty(len(sq_dists)))


def nearest_shares(sq_dists: Tensor, count: int) -> Tensor:
    """The shares (n, n) of the clients in the mean of the ``count`` updates nearest to each update, itself included;
    updates at the same distance share the remaining weight equally."""

    def shares(rows: slice) -> Tensor:
        dists = sq_dists[rows]
        last = _kth_smallest(dists, count)
        nearer, equal = (dists < last).double(), (dists == last).double()
        each_equal = (count - nearer.sum(dim=1, keepdim=True)) / equal.sum(dim=1, keepdim=True)
        return equal.mul_(each_equal).add_(nearer).div_(count)

    return by_rows(shares, sq_dists, torch.empty_like(sq_dists))


def by_rows(work: Callable[[slice], Tensor], square: Tensor, out: Tensor) -> Tensor:
    """Fill the rows of ``out`` with the results of ``work`` for blocks of the rows of a matrix ``square`` (n, n).

    The threads of a run share the blocks, so that no copy of the whole matrix is needed.
    """

    def fill(rows: slice) -> None:
        out[rows] = work(rows)

    step = width(square, max(1, SORTED // len(square)))
    each(fill, [slice(start, min(start + step, len(square))) for start in range(0, len(square), step)])
    return out


def _sorted(rows: Tensor) -> Tensor:
    """The rows in ascending order; on a CPU in place and by NumPy, which takes a tenth of PyTorch's time."""
    if rows.device.type != "cpu":
        return rows.sort(dim=1).values
    rows.numpy().sort(axis=1)
    return rows


def _kth_smallest(rows: Tensor, k: int) -> Tensor:
    """The k-th smallest number of each of the rows (m, n), (m, 1)."""
    if rows.device.type != "cpu":
        return rows.sort(dim=1).values[:, k - 1 : k]
    return torch.from_numpy(np.partition(rows.numpy(), k - 1, axis=1)[:, k - 1 : k])
