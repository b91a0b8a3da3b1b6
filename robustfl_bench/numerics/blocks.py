"""How wide a block of columns is."""

from torch import Tensor

ON_A_GPU = 1 << 26  # numbers: sorted with their places, or in float64, they take less than 2 GiB


def width(rows: Tensor, on_a_cpu: int) -> int:
    """The columns of the rows (n, d) that are worked on together: a number that suits a CPU's caches, or as many as
    leave room in the memory of any GPU."""
    return on_a_cpu if rows.device.type == "cpu" else max(1, ON_A_GPU // len(rows))
