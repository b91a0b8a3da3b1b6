"""The width of a block of columns."""

from torch import Tensor

ON_A_GPU = 1 << 26  # entries: less than 2 GiB, even in float64 or sorted with their indices


def width(rows: Tensor, on_a_cpu: int) -> int:
    """The number of columns of ``rows`` (n, d) to process at once: ``on_a_cpu``, chosen for a CPU's caches, or on a GPU
    as many as fit in any GPU's memory."""
    return on_a_cpu if rows.device.type == "cpu" else max(1, ON_A_GPU // len(rows))
