"""The median of every coordinate, and the values that are nearest to it, or to zero."""

from typing import Any

import torch
from torch import Tensor

from robustfl_bench.numerics.updates import Updates


def median(updates: Updates) -> Tensor:
    """The median (d,) of every coordinate; of an even number of clients, the mean of the two middle values."""
    lower, upper = (updates.n - 1) // 2, updates.n // 2
    # Halved before they are added, as the sum of two large floats could overflow.
    return updates.by_sorted_row(lambda rows: rows[lower] * 0.5 + rows[upper] * 0.5)


def mean_near_median(updates: Updates, count: int, even: str = "mean") -> Tensor:
    """Mean (d,) of the ``count`` values of every coordinate that are nearest to the coordinate's median.

    With an even number of clients, the median is the mean of the two middle values, or the lower one if ``even`` is
    "lower". Of two values at the same distance, the smaller is taken.
    """

    def reduce(block: Any) -> Any:
        values = torch.as_tensor(block)
        n = values.shape[1]
        lower, upper = (n - 1) // 2, (n - 1) // 2 if even == "lower" else n // 2
        twice = values[:, lower].double() + values[:, upper].double()
        return (sum_nearest(values, count, twice) / count).to(values.dtype)

    return updates.by_sorted_column(reduce)


def sum_nearest(values: Tensor, count: int, twice: Tensor) -> Tensor:
    """Sums (k,) float64 of the ``count`` values of each row of sorted ``values`` (k, n) nearest to ``twice / 2`` (k,).

    Of two values at the same distance, the smaller is taken.
    """
    # The values nearest to a point are neighbours in sorted order. The block of ``count`` values starts one place later
    # for every value whose distance to the point exceeds that of the value ``count`` places above it.
    pairs = values[:, count:].double() + values[:, : values.shape[1] - count].double()
    start = (pairs < twice[:, None]).sum(1)
    places = start[:, None] + torch.arange(count, device=values.device)
    return values.gather(1, places).sum(1, dtype=torch.float64)
