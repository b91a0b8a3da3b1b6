"""Blocks of columns: their width, and the threads that share them."""

from collections.abc import Callable

from torch import Tensor

from robustfl_bench.base.parallel import each

ON_A_GPU = 1 << 26  # entries: less than 2 GiB, even in float64 or sorted with their indices


def width(rows: Tensor, on_a_cpu: int) -> int:
    """The number of columns of ``rows`` (n, d) to process at once: ``on_a_cpu``, chosen for a CPU's caches, or on a GPU
    as many as fit in any GPU's memory."""
    return on_a_cpu if rows.device.type == "cpu" else max(1, ON_A_GPU // len(rows))


def each_block(fill: Callable[[slice], None], columns: int, step: int) -> None:
    """Call ``fill`` for every block of ``step`` of the columns; the threads of a run share the blocks."""
    each(fill, [slice(start, min(start + step, columns)) for start in range(0, columns, step)])
