"""The values of every coordinate that are nearest to its median, or to zero."""

from typing import Any

import torch
from torch import Tensor

from robustfl_bench.updates import Updates


def mean_near_median(updates: Updates, count: int, even: str = "mean") -> Tensor:
    """Mean (d,) of the ``count`` values of every coordinate that are nearest to the coordinate's median.

    With an even number of clients the median is the mean of the two middle values, or with ``even`` lower the lower
    one. Of two values at the same distance, the smaller one is taken.
    """

    def reduce(block: Any) -> Any:
        values = torch.as_tensor(block)
        n = values.shape[1]
        lower, upper = (n - 1) // 2, (n - 1) // 2 if even == "lower" else n // 2
        twice = values[:, lower].double() + values[:, upper].double()
        return (sum_nearest(values, count, twice) / count).to(values.dtype)

    return updates.by_sorted_column(reduce)


def sum_nearest(values: Tensor, count: int, twice: Tensor) -> Tensor:
    """Sums (k,) float64 of the ``count`` nearest to ``twice / 2`` (k,) of each row of sorted ``values`` (k, n).

    Of two values at the same distance, the smaller one is taken.
    """
    # Sorted values that are nearest to a point are neighbours. Their run of ``count`` starts one place further for
    # every value that is farther below the point than the one ``count`` places above it.
    pairs = values[:, count:].double() + values[:, : values.shape[1] - count].double()
    start = (pairs < twice[:, None]).sum(1)
    places = start[:, None] + torch.arange(count, device=values.device)
    return values.gather(1, places).sum(1, dtype=torch.float64)
