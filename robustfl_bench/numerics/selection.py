"""Which clients to keep: ranks, distances to the mean, and two groups."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.parallel import each
from robustfl_bench.numerics.blocks import width
from robustfl_bench.numerics.gram_space import Array, sq_dists_to
from robustfl_bench.numerics.inner_products import BLOCK
from robustfl_bench.numerics.updates import Aggregate, Updates

SORTED = 1 << 18  # distances to sort at a time, which stay in the cache
FEW = 1 << 20  # numbers of updates whose differences from a vector fit in the cache


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
    values = scores.detach().cpu().numpy()
    last = np.partition(values, count - 1)[count - 1]
    below, equal = values < last, values == last
    if not (ties := np.count_nonzero(equal)):  # nan
        return updates.combine(np.full(updates.n, np.nan))
    weights = below + equal * ((count - np.count_nonzero(below)) / ties)
    return updates.combine(weights / count)


def mean_of_nearest(updates: Updates, start: Tensor, count: int) -> Aggregate | None:
    """``mean_of_lowest`` by the squared distances from ``start`` (d,), as inner products would give them, for updates
    with ``products_unknown``; None if rounding could decide who is nearest, or for many numbers.

    In either way of computing them, a squared distance has an error of at most d roundings of the squared sum of the
    lengths.
    """
    if updates.n * updates.d > FEW:
        return None
    with np.errstate(invalid="ignore"):
        origin = start.detach().numpy().astype(np.float64)
        differences = updates.columns.numpy() - origin
        sq_dists = np.vecdot(differences, differences)
        longest = np.sqrt(sq_dists) + 2 * math.sqrt(origin @ origin)  # at least the sum of both lengths
        errors = (8 * (len(origin) + 16) * np.finfo(np.float64).eps) * longest**2
        order = sq_dists.argsort()
        kept, dropped = order[:count], order[count:]
        if not (sq_dists + errors)[kept].max() < (sq_dists - errors)[dropped].min(initial=np.inf):
            return None
    weights = np.zeros(updates.n)
    weights[kept] = 1 / count
    return updates.combine(weights)


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
    found = scores(updates.sq_dists)
    if found.device.type == "cpu":
        return torch.from_numpy(found.numpy().argsort(kind="stable")[:count])
    return found.argsort(stable=True)[:count]


def nearest_sums(sq_dists: Tensor, others: int, squared: bool = True) -> Tensor:
    """Krum's scores (n,): sums of every client's ``others`` smallest squared distances to other clients, from all
    ``sq_dists`` (n, n); unless ``squared``, sums of the distances."""

    def summed(ordered: Tensor) -> Tensor:
        nearest = ordered[:, :others]
        return (nearest if squared else nearest.sqrt()).sum(dim=1)

    def sums(rows: slice) -> Tensor:
        dists = sq_dists[rows].clone()
        dists.diagonal(rows.start).fill_(math.inf)
        return summed(_sorted(dists))

    if sq_dists.device.type == "cpu" and len(sq_dists) ** 2 <= SORTED:
        dists = sq_dists.numpy().copy()
        dists.reshape(-1)[:: len(dists) + 1] = math.inf
        dists.sort(axis=1)
        return summed(torch.from_numpy(dists))

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


DIGITS = 1e-6  # largest relative error at which squared distances are taken from inner products
FOLD = 4  # sums have this many times the digits of float64


def sq_dists_to_mean(updates: Updates, gram: Array, masses: Array) -> Array:
    """Squared distances (n,) of the updates to their mean, weighted by ``masses`` (n,).

    ``gram`` (n, n) holds the inner products relative to one of the updates. Attackers that send v and -v leave a mean
    of ordinary size, but its inner products have rounding errors of the order of |v|^2. The mean is then computed by
    coordinate.
    """
    weights = masses / masses.sum()
    sq_dists = sq_dists_to(gram, weights)
    lengths = np.sqrt(gram.diagonal().clip(min=0))
    error = len(gram) * np.finfo(np.float64).eps * (lengths + weights @ lengths) ** 2
    if (error <= DIGITS * sq_dists).all():
        return sq_dists
    exact, matrix = np.zeros(updates.n), updates.columns.cpu().numpy()
    for start in range(0, matrix.shape[1], BLOCK):
        block = matrix[:, start : start + BLOCK].astype(np.float64)
        exact += np.square(block - exact_sum(masses[:, None] * block) / masses.sum()).sum(axis=1)
    return updates.place.sum(torch.from_numpy(exact)).numpy()


def exact_sum(rows: Array) -> Array:
    """The sum (d,) of the rows (n, d), as if computed with four times the digits of float64, then rounded.

    Every addition passes its rounding error on to the next (Ogita, Rump, Oishi, SIAM J. Sci. Comput. 2005, SumK).
    """
    parts = rows.copy()
    for _ in range(FOLD - 1):
        for i in range(1, len(parts)):
            total = parts[i] + parts[i - 1]
            share = total - parts[i]
            parts[i - 1] = (parts[i] - (total - share)) + (parts[i - 1] - share)
            parts[i] = total
    summed: Array = parts.sum(axis=0)
    return summed


# Clustering of a few points in two groups by k-means (Lloyd, IEEE Trans. Inf. Theory 1982), from their distances.


MAX_ITER = 300
EQUAL = 1e-9  # share of the total of all squared distances below which differences are rounding errors


def two_groups(sq_dists: Array) -> NDArray[np.bool_]:
    """Mask (n,) of one of two groups of points with squared distances ``sq_dists`` (n, n); the rest is the other one.

    Lloyd's algorithm starts n times, each time from a point and the one farthest from it. Of the results, the one of
    least total squared distance from the means of the groups counts. So no random draw decides, as in the usual starts
    of k-means. Equal points are in one group; if all are equal, the other group is empty.
    """
    first = sq_dists <= sq_dists[sq_dists.argmax(axis=1)]  # (starts, n); ties belong to the first group
    for _ in range(MAX_ITER):
        nearer = _from_means(sq_dists, first) <= _from_means(sq_dists, ~first)
        if (nearer == first).all():
            break
        first = nearer
    spreads = np.array([_spread(sq_dists, each) + _spread(sq_dists, ~each) for each in first])
    group: NDArray[np.bool_] = first[int((spreads <= spreads.min() + EQUAL * sq_dists.sum()).argmax())]
    return group


def _from_means(sq_dists: Array, groups: NDArray[np.bool_]) -> Array:
    """Squared distances (k, n) of the points from the mean of each group (k, n); infinite for an empty one."""
    sizes = groups.sum(axis=1, keepdims=True)
    shares = groups / np.maximum(sizes, 1)
    means = shares @ sq_dists
    found: Array = np.where(sizes > 0, means - (means * shares).sum(axis=1, keepdims=True) / 2, np.inf)
    return found


def _spread(sq_dists: Array, group: NDArray[np.bool_]) -> float:
    """Total squared distance of the members of a group from their mean."""
    return float(sq_dists[np.ix_(group, group)].sum()) / (2 * max(int(group.sum()), 1))
