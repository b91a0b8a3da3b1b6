"""Functions for rules that rank the clients and average the best of them."""

import math
from collections.abc import Callable

from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.updates import Aggregate, Updates


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


def nearest_sums(dists: Tensor, others: int) -> Tensor:
    """Krum's scores (n,): sums of every client's ``others`` smallest distances to other clients in ``dists`` (n, n)."""
    return dists.clone().fill_diagonal_(math.inf).sort(dim=1).values[:, :others].sum(dim=1)
